// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
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

// TestRestoreObjects_MissingVolumeData provisions a new volume for a claim whose storage was deleted with
// it, with a warning, and leaves existing claims alone.
func TestRestoreObjects_MissingVolumeData(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "data-gone"
	volume, claim := volumeAndClaim(t, ns, "Delete")
	request := restore.Request{Archive: spool(t, []*unstructured.Unstructured{volume, claim, configMap(t, ns, "other", "x")}), RestoreUID: "u"}
	for _, dry := range []bool{true, false} {
		request.DryRun = dry
		result := c.run(request)
		if diff := cmp.Diff(map[string][]string{
			"v1/PersistentVolume": {"pv-" + ns + "(skipped)"}, "v1/PersistentVolumeClaim": {ns + "/claim(created)"},
			"v1/ConfigMap": {ns + "/other(created)"}, "v1/Namespace": {ns + "(created)"},
		}, listOf(result)); diff != "" {
			t.Errorf("dry run %t (-want +got):\n%s", dry, diff)
		}
		wantMessages(t, result, "warning "+ns+": |the backup does not hold the data of this claim|gets a new, empty volume")
	}
	if c.has(volume) {
		t.Error("a volume without data was made")
	}
	if bound, _, _ := unstructured.NestedString(c.get(claim).Object, "spec", "volumeName"); bound != "" {
		t.Errorf("the claim takes volume %q", bound)
	}
	for _, policy := range []restore.ExistingPolicy{restore.ExistingNone, restore.ExistingUpdate, restore.ExistingRecreate} {
		request.Policy, request.RestoreUID, request.DryRun = policy, "v", false
		again := c.run(request)
		if diff := cmp.Diff([]string{ns + "/claim(unchanged)"}, listOf(again)["v1/PersistentVolumeClaim"]); diff != "" {
			t.Errorf("with policy %s (-want +got):\n%s\n%s", policy, diff, messages(again))
		}
	}
}

// TestRestoreObjects_BoundClaimOfDeletedVolume restores onto a claim that is bound to a volume with policy
// Delete: nothing was lost, and nothing changes.
func TestRestoreObjects_BoundClaimOfDeletedVolume(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "data-there"
	volume, claim := volumeAndClaim(t, ns, "Delete")
	request := restore.Request{Archive: spool(t, []*unstructured.Unstructured{volume, claim}), RestoreUID: "u"}
	retained, _ := volumeAndClaim(t, ns, "Retain")
	first := c.run(restore.Request{Archive: spool(t, []*unstructured.Unstructured{retained, claim}), RestoreUID: "u"})
	wantCounts(t, first, map[restore.Outcome]int{restore.Created: 3})
	eventually(t, "the claim is bound", func() bool {
		phase, _, _ := unstructured.NestedString(c.get(claim).Object, "status", "phase")
		return phase == "Bound"
	})
	for _, policy := range []restore.ExistingPolicy{restore.ExistingNone, restore.ExistingUpdate, restore.ExistingRecreate} {
		request.Policy, request.RestoreUID = policy, "v"
		again := c.run(request)
		if diff := cmp.Diff([]string{ns + "/claim(unchanged)"}, listOf(again)["v1/PersistentVolumeClaim"]); diff != "" {
			t.Errorf("with policy %s (-want +got):\n%s\n%s", policy, diff, messages(again))
		}
	}
}

// TestRestoreObjects_CapturedClaim restores claims whose data is in the backup, with and without an action
// that restores it.
func TestRestoreObjects_CapturedClaim(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, mapped = "captured", "captured-mapped"
	volume, claim := volumeAndClaim(t, ns, "Retain")
	content := obj(t, "snapshot.storage.k8s.io/v1", "VolumeSnapshotContent", "", "content", `{"spec":{"driver":"x"}}`)
	other := obj(t, "snapshot.storage.k8s.io/v1", "VolumeSnapshotContent", "", "other", `{"spec":{"driver":"x"}}`)
	request := restore.Request{
		Archive:   spool(t, []*unstructured.Unstructured{volume, claim, content, other}),
		Selection: selection.Spec{IncludedNamespaces: []string{ns}}, NamespaceMapping: map[string]string{ns: mapped},
		CapturedClaims: map[types.NamespacedName]string{{Namespace: ns, Name: "claim"}: "x/snapshot"}, RestoreUID: "u",
	}
	result := c.run(request)
	wantMessages(t, result, "error "+mapped+": |persistentvolumeclaims \""+mapped+"/claim\"|which action x/snapshot captured, and no action restores it: install the Plugin")
	claim.SetNamespace(mapped)
	if c.has(claim) || c.has(volume) {
		t.Fatal("the claim or its old volume was created")
	}

	contents := &plugged{name: "x/content", of: []string{"volumesnapshotcontents.snapshot.storage.k8s.io"}}
	contents.execute = func(context.Context, *itemaction.RestoreItem) (itemaction.Result, error) {
		return itemaction.Result{Skip: "the claim gets a copy"}, nil
	}
	claims := &plugged{name: "x/snapshot", of: []string{"persistentvolumeclaims"}}
	claims.execute = func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		if got := action.Get[string](item.Object.Object, "spec", "volumeName"); got != "" {
			t.Errorf("the action sees volume %q", got)
		}
		source := map[string]any{"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "copy"}
		related := itemaction.RelatedItem{Resource: schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}, Name: "content"}
		return itemaction.Result{RelatedItems: []itemaction.RelatedItem{related}},
			unstructured.SetNestedMap(item.Object.Object, source, "spec", "dataSourceRef")
	}
	request.Actions = []itemaction.RestorePluginAction{claims, contents}
	for _, excluded := range [][]string{nil, {"*.snapshot.storage.k8s.io"}} {
		request.Selection.ExcludedResources, request.RestoreUID = excluded, "v"+fmt.Sprint(len(excluded))
		result = c.run(request)
		wantMessages(t, result)
		wantSeen(t, claims, ns+"/claim")
		wantSeen(t, contents, "/content")
		if source, _, _ := unstructured.NestedString(c.get(claim).Object, "spec", "dataSourceRef", "name"); source != "copy" {
			t.Errorf("the claim gets its data from %q", source)
		}
		if c.has(volume) {
			t.Error("the old volume was created")
		}
		c.delete(claim)
	}
}
