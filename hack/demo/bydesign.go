// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
)

// rule says which differences between an object and the restored one are meant to
// be. It is as narrow as it can be: a field that differs in another way than it
// says is a defect.
type rule struct {
	// fields are those it is about, and whatever is below them.
	fields []string
	why    string
	// holds reports whether a difference of such a field is meant to be.
	holds func(r *restored, d difference) bool
}

// rules returns all of them, in the order of the report.
func rules() []rule {
	return []rule{
		{[]string{"metadata.uid"}, "it is a new object", bothSet},
		{[]string{"metadata.resourceVersion"}, "it was written at another time", bothSet},
		{[]string{"metadata.creationTimestamp"}, "it was created at another time", bothSet},
		{[]string{"metadata.generation"}, "the API server counts from 1 again", bothSet},
		{[]string{"metadata.managedFields"}, "other programs wrote it", always},
		{[]string{"metadata.generateName"}, "the name is known already", isGone},
		{[]string{"metadata.ownerReferences"}, "the same owner has a new UID", sameOwner},
		{[]string{"metadata.namespace"}, "the namespace is mapped", isMapped},
		{[]string{"metadata.name", "metadata.labels.kubernetes.io/metadata.name"}, "it is the namespace that is mapped", isMappedNamespace},
		{[]string{"metadata.name"}, "its controller made a new one", isMadeAnew},
		{[]string{"metadata.labels." + action.LabelBackupName}, "it says where the object is from", hasBackup},
		{[]string{"metadata.labels." + action.LabelRestoreName}, "it says what restored it", hasRestore},
		{[]string{"metadata.annotations." + restore.RestoredAnnotation}, "it says what was done", hasStamp},
		{[]string{"metadata.annotations.endpoints.kubernetes.io/last-change-trigger-time"}, "its controller made it again", bothSet},
		{[]string{"spec.clusterIP", "spec.clusterIPs"}, "the cluster chooses an address", isOfService},
		{[]string{"spec.ports"}, "the cluster chooses a node port", isNodePort},
		{[]string{"status"}, "controllers see how it is now", always},
	}
}

func always(*restored, difference) bool { return true }

func bothSet(_ *restored, d difference) bool { return d.before != nil && d.after != nil }

func isGone(_ *restored, d difference) bool { return d.after == nil }

// sameOwner reports whether the new UID is that of the owner as it was restored.
func sameOwner(r *restored, d difference) bool {
	before, _ := d.before.(string)
	after, _ := d.after.(string)
	owner, known := r.before.withUID(before)
	now, exists := r.after.withUID(after)
	return strings.HasSuffix(d.field, "].uid") && known && exists && r.target(owner) == now
}

func isMapped(r *restored, d difference) bool {
	before, _ := d.before.(string)
	return before != "" && d.after == r.mapping[before]
}

func isMappedNamespace(r *restored, d difference) bool {
	return d.object.kind.Kind == "Namespace" && isMapped(r, d)
}

// isMadeAnew is about EndpointSlices only, which are not restored: other objects
// keep their names.
func isMadeAnew(_ *restored, d difference) bool { return isSlice(d.object) }

func hasBackup(r *restored, d difference) bool { return d.before == nil && d.after == r.backup }

func hasRestore(r *restored, d difference) bool { return d.before == nil && d.after == r.restore }

func hasStamp(r *restored, d difference) bool {
	after, _ := d.after.(string)
	return d.before == nil && strings.HasPrefix(after, "created "+r.uid+" ")
}

func isOfService(r *restored, d difference) bool {
	return d.object.kind.Kind == "Service" && bothSet(r, d)
}

// nodePort is the only field of a port that may differ.
var nodePort = regexp.MustCompile(`^spec\.ports\[\d+\]\.nodePort$`)

// isNodePort is about ports that were not specified: the last applied configuration
// of the Service has none.
func isNodePort(r *restored, d difference) bool {
	if !isOfService(r, d) || !nodePort.MatchString(d.field) {
		return false
	}
	applied := r.before[d.object].GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"]
	return applied != "" && !strings.Contains(applied, `"nodePort"`)
}
