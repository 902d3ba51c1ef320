// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Order defines which resources are restored before and after all others, by names in any
// form that the cluster resolves.
type Order struct {
	// High are restored first, one resource after the other. CustomResourceDefinitions and
	// namespaces always come before them.
	High []string
	// Low are restored last, one resource after the other.
	Low []string
}

// lowPrioritySeparator separates the two lists of an Order in a text.
const lowPrioritySeparator = "-"

// MarshalText returns what UnmarshalText reads.
func (o Order) MarshalText() ([]byte, error) {
	return []byte(strings.Join(slices.Concat(o.High, []string{lowPrioritySeparator}, o.Low), ",")), nil
}

// UnmarshalText parses the format of Velero's flag --restore-resource-priorities:
// "serviceaccounts,secrets,-,resourcequotas". The resources after the optional "-" are
// restored last.
func (o *Order) UnmarshalText(text []byte) error {
	var order Order
	list, seen := &order.High, map[string]bool{}
	for entry := range strings.SplitSeq(string(text), ",") {
		entry = strings.TrimSpace(entry)
		switch {
		case entry == "" && len(text) > 0:
			return errors.New("there is an empty entry; write names of resources, separated by commas")
		case seen[entry]:
			return fmt.Errorf("%q occurs twice", entry)
		case entry == lowPrioritySeparator:
			list = &order.Low
		case entry != "":
			*list = append(*list, entry)
		}
		seen[entry] = true
	}
	*o = order
	return nil
}

// DefaultOrder returns the order of Velero, with more kinds at the end. A webhook that is
// called before its pods run, a quota that was lowered after its namespace was filled, and
// an admission policy, which has no effect before its binding, would reject what they once
// accepted. They could even reject the operator's updates of the restore's own status.
func DefaultOrder() Order {
	return Order{
		High: []string{
			"storageclasses.storage.k8s.io",
			"volumesnapshotclasses.snapshot.storage.k8s.io",
			"volumesnapshotcontents.snapshot.storage.k8s.io",
			"volumesnapshots.snapshot.storage.k8s.io",
			"datauploads.velero.io",
			"persistentvolumes", "persistentvolumeclaims",
			"clusterroles.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io",
			"serviceaccounts",
			"clusterrolebindings.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
			"secrets", "configmaps", "limitranges", "priorityclasses.scheduling.k8s.io",
			"pods", "replicasets.apps",
			"clusterclasses.cluster.x-k8s.io", "endpoints", "services",
		},
		Low: []string{
			"clusterbootstraps.run.tanzu.vmware.com", "clusters.cluster.x-k8s.io",
			"clusterresourcesets.addons.cluster.x-k8s.io", "apps.kappctrl.k14s.io",
			"packageinstalls.packaging.carvel.dev",
			"resourcequotas",
			"apiservices.apiregistration.k8s.io",
			"validatingadmissionpolicies.admissionregistration.k8s.io",
			"mutatingadmissionpolicies.admissionregistration.k8s.io",
			"validatingadmissionpolicybindings.admissionregistration.k8s.io",
			"mutatingadmissionpolicybindings.admissionregistration.k8s.io",
			"mutatingwebhookconfigurations.admissionregistration.k8s.io",
			"validatingwebhookconfigurations.admissionregistration.k8s.io",
		},
	}
}

// orderedWaves returns the kinds in the order in which they are restored: those of a wave
// together, one wave after the other. CustomResourceDefinitions and namespaces are not
// included.
func (r *enginePass) orderedWaves() [][]*kind {
	order := r.engine.opts.Order
	placed := map[schema.GroupResource]bool{crdResource: true, namespaceResource: true}
	high, low := r.wavesForEntries(order.High, placed), r.wavesForEntries(order.Low, placed)
	var rest []*kind
	for gr, k := range r.kinds {
		if !placed[gr] {
			rest = append(rest, k)
		}
	}
	slices.SortFunc(rest, func(a, b *kind) int { return strings.Compare(a.resource.String(), b.resource.String()) })
	return slices.Concat(high, [][]*kind{rest}, low)
}

// wavesForEntries returns a wave for each entry that names a kind of the archive.
func (r *enginePass) wavesForEntries(entries []string, placed map[schema.GroupResource]bool) [][]*kind {
	var waves [][]*kind
	for _, entry := range entries {
		gr, ok := r.resolveOrderEntry(entry)
		if k := r.kinds[gr]; ok && k != nil && !placed[gr] {
			placed[gr] = true
			waves = append(waves, []*kind{k})
		}
	}
	return waves
}

// resolveOrderEntry finds the resource of an entry.
func (r *enginePass) resolveOrderEntry(entry string) (schema.GroupResource, bool) {
	if gr := schema.ParseGroupResource(entry); r.kinds[gr] != nil {
		return gr, true
	}
	return r.served.Resolve(entry)
}
