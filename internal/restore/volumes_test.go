// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// volumeAndClaim are as a cluster has them once they are bound.
func volumeAndClaim(t testing.TB, ns, policy string) (volume, claim *unstructured.Unstructured) {
	t.Helper()
	name := "pv-" + ns
	volume = obj(t, "v1", "PersistentVolume", "", name, fmt.Sprintf(`{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
		"hostPath":{"path":"/x","type":""},"storageClassName":"none","volumeMode":"Filesystem","persistentVolumeReclaimPolicy":%q,
		"claimRef":{"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":%q,"name":"claim","uid":"11111111-0000-4000-8000-000000000000"}},
		"status":{"phase":"Bound"},"metadata":{"finalizers":["kubernetes.io/pv-protection"],
		"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}}}`, policy, ns))
	claim = obj(t, "v1", "PersistentVolumeClaim", ns, "claim", fmt.Sprintf(`{"spec":{"accessModes":["ReadWriteOnce"],
		"storageClassName":"none","volumeMode":"Filesystem","volumeName":%q,"resources":{"requests":{"storage":"1Gi"}}},
		"status":{"phase":"Bound"},"metadata":{"finalizers":["kubernetes.io/pvc-protection"],
		"annotations":{"pv.kubernetes.io/bind-completed":"yes","pv.kubernetes.io/bound-by-controller":"yes"}}}`, name))
	return volume, claim
}

// TestRestoreObjects_BoundVolume binds a claim to its volume in a mapped namespace, although only the namespace is selected:
// a claim adds its volume.
func TestRestoreObjects_BoundVolume(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, mapped = "claims", "claims-mapped"
	volume, claim := volumeAndClaim(t, ns, "Retain")
	unbound := obj(t, "v1", "PersistentVolumeClaim", ns, "unbound",
		`{"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"missing","volumeMode":"Filesystem","resources":{"requests":{"storage":"1Gi"}}},"status":{"phase":"Pending"}}`)
	other, _ := volumeAndClaim(t, "claims-other", "Retain")
	request := restore.Request{
		Archive:   spool(t, []*unstructured.Unstructured{volume, claim, unbound, other}),
		Selection: selection.Spec{IncludedNamespaces: []string{ns}}, NamespaceMapping: map[string]string{ns: mapped}, RestoreUID: "u",
	}
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 4})
	wantMessages(t, result,
		"warning cluster: |persistentvolumes \"pv-claims\"|does not hold the data",
		"warning "+mapped+": |persistentvolumeclaims \""+mapped+"/claim\"|binds to PersistentVolume \"pv-claims\" and no other")
	claim.SetNamespace(mapped)
	eventually(t, "the claim is bound", func() bool {
		phase, _, _ := unstructured.NestedString(c.get(claim).Object, "status", "phase")
		return phase == "Bound"
	})
	reference, _, _ := unstructured.NestedMap(c.get(volume).Object, "spec", "claimRef")
	if reference["namespace"] != mapped || reference["name"] != "claim" || reference["uid"] != string(c.get(claim).GetUID()) {
		t.Errorf("the volume belongs to %v", reference)
	}
	// And again, with bound objects.
	request.RestoreUID = "v"
	for _, policy := range []restore.ExistingPolicy{restore.ExistingNone, restore.ExistingUpdate, restore.ExistingRecreate} {
		request.Policy = policy
		again := c.run(request)
		if diff := cmp.Diff(map[string][]string{
			"v1/PersistentVolume":      {"pv-claims(unchanged)"},
			"v1/PersistentVolumeClaim": {mapped + "/claim(unchanged)", mapped + "/unbound(unchanged)"},
		}, listOf(again)); diff != "" {
			t.Errorf("with policy %s (-want +got):\n%s\n%s", policy, diff, messages(again))
		}
	}
}

// TestRestoreObjects_MissingVolumeData is an error, and its claim gets no empty volume.
func TestRestoreObjects_MissingVolumeData(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "data-gone"
	volume, claim := volumeAndClaim(t, ns, "Delete")
	request := restore.Request{Archive: spool(t, []*unstructured.Unstructured{volume, claim, configMap(t, ns, "other", "x")}), RestoreUID: "u"}
	for _, dry := range []bool{true, false} {
		request.DryRun = dry
		result := c.run(request)
		if diff := cmp.Diff(map[string][]string{
			"v1/PersistentVolume": {"pv-" + ns + "(failed)"}, "v1/PersistentVolumeClaim": {ns + "/claim(created)"},
			"v1/ConfigMap": {ns + "/other(created)"}, "v1/Namespace": {ns + "(created)"},
		}, listOf(result)); diff != "" {
			t.Errorf("dry run %t (-want +got):\n%s", dry, diff)
		}
		wantMessages(t, result,
			"error cluster: |persistentvolumes \"pv-"+ns+"\"|the backup does not hold the data of this volume|delete the restored claim",
			"warning "+ns+": |stays Pending while that is missing")
	}
	if c.has(volume) {
		t.Error("a volume without data was made")
	}
	if bound, _, _ := unstructured.NestedString(c.get(claim).Object, "spec", "volumeName"); bound != volume.GetName() {
		t.Errorf("the claim takes volume %q", bound)
	}
}
