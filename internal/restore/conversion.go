// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
)

// retargetItem updates the target of an item to the object that an action returned, in
// another version or of another kind.
func (r *enginePass) retargetItem(it *item) error {
	apiVersion, kind := it.object.GetAPIVersion(), it.object.GetKind()
	key := apiVersion + "/" + kind
	if key == it.listEntry.key {
		return nil
	}
	became, ok := r.findServedResource(it.target.Resource.Resource, apiVersion, kind)
	gr := became.GroupResource()
	target := rawclient.Target{Resource: became.GVR, Namespace: it.target.Namespace, Name: it.target.Name}
	switch hasNamespace := target.Namespace != ""; {
	case !ok:
		return fmt.Errorf("made %.253q of %q, which the cluster does not serve: install what defines it, or fix the plugin", key, it.listEntry.key)
	case became.Namespaced != hasNamespace:
		return fmt.Errorf("made %q of %q: one has a namespace in this cluster, and the other has not", key, it.listEntry.key)
	case gr == namespaceResource || action.NeverRestoredReason(gr) != "":
		return fmt.Errorf("made %q of %q, which is never restored that way", key, it.listEntry.key)
	case gr != it.resource:
		if r.hasTargetConflict(it, target) {
			return fmt.Errorf("made %q of %q, and the backup has another object that becomes %s", key, it.listEntry.key, target)
		}
		it.existing = nil
	}
	it.converted = gr != it.kind.resource
	it.resource, it.target, it.listEntry.key = gr, target, key
	return nil
}

// findServedResource finds the resource of an object, preferably the one with the same
// name.
func (r *enginePass) findServedResource(resource, apiVersion, kind string) (discovery.Resource, bool) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || kind == "" {
		return discovery.Resource{}, false
	}
	if same, ok := r.findServedVersion(gv.WithResource(resource)); ok && same.Kind == kind {
		return same, true
	}
	for _, versions := range r.served.Versions {
		for _, served := range versions {
			if served.GVR.GroupVersion() == gv && served.Kind == kind {
				return served, true
			}
		}
	}
	return discovery.Resource{}, false
}

// hasTargetConflict reports whether another object of the archive has the same target: one
// with that name, or one that was already converted to it.
func (r *enginePass) hasTargetConflict(it *item, target rawclient.Target) bool {
	if k := r.kinds[target.Resource.GroupResource()]; k != nil {
		sources := []string{""}
		if target.Namespace != "" {
			sources = r.namespaceMapping.sourceNamespaces(target.Namespace)
		}
		for _, source := range sources {
			if e, ok := k.findEntry(source, target.Name); ok && (e.selected || e.state.Load() != statePending) {
				return true
			}
		}
	}
	unversioned := target
	unversioned.Resource.Version = ""
	first, _ := r.converted.LoadOrStore(unversioned, it.entry.itemStatus)
	return first != it.entry.itemStatus
}
