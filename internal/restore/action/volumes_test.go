// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore/action"
)

func volumeJSON(name, policy, namespace string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":%q},"spec":{
		"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/data"},"storageClassName":"manual",
		"persistentVolumeReclaimPolicy":%q,"claimRef":{"namespace":%q,"name":"data"}}}`, name, policy, namespace)
}

func claimJSON(namespace string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data","namespace":%q},
		"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"manual","resources":{"requests":{"storage":"1Gi"}}}}`, namespace)
}

// bind creates a volume and a claim and waits until they are bound.
func (c cluster) bind(t testing.TB, name, policy, namespace string) (volume, claim *unstructured.Unstructured) {
	t.Helper()
	c.namespace(t, namespace)
	volume = c.create(t, volumeJSON(name, policy, namespace))
	claim = c.create(t, claimJSON(namespace))
	c.awaitPhase(t, claim, string(corev1.ClaimBound))
	c.awaitPhase(t, volume, string(corev1.VolumeBound))
	return volume, claim
}

func (c cluster) awaitPhase(t testing.TB, object *unstructured.Unstructured, phase string) {
	t.Helper()
	c.await(t, object.GetKind()+" "+object.GetName()+" to be "+phase, func() bool {
		return action.Get[string](c.refresh(t, object).Object, "status", "phase") == phase
	})
}

func (c cluster) testVolume(t testing.TB) {
	t.Helper()
	volume, claim := c.bind(t, "retained", "Retain", "volumes")
	archivedVolume, archivedClaim := volume.DeepCopy(), claim.DeepCopy()
	c.namespace(t, "volumes-2")
	mapping := run("volumes", "volumes-2")

	// The claim is deleted; the volume stays, and no claim can take it.
	c.remove(t, claim)
	c.awaitPhase(t, volume, string(corev1.VolumeReleased))
	rebound, ok := action.RebindVolume(volume, archivedVolume, mapping)
	if !ok {
		t.Fatalf("the released volume is left alone: %v", volume.Object)
	}
	if err := c.Update(t.Context(), rebound); err != nil {
		t.Fatal(err)
	}
	restored := c.restore(t, archivedClaim, mapping)
	c.awaitPhase(t, restored, string(corev1.ClaimBound))

	// The volume is deleted too, as in a new cluster, and restored from the archive.
	c.remove(t, restored)
	c.remove(t, volume)
	c.restore(t, archivedVolume, mapping)
	restored = c.restore(t, archivedClaim, mapping)
	c.awaitPhase(t, restored, string(corev1.ClaimBound))
	if got := action.Get[string](restored.Object, "spec", "volumeName"); got != "retained" {
		t.Errorf("the claim got volume %q", got)
	}
}

func (c cluster) testMissingVolume(t testing.TB) {
	t.Helper()
	volume, claim := c.bind(t, "lost", "Delete", "empty")
	archived := claim.DeepCopy()
	c.remove(t, claim)
	c.remove(t, volume)
	// An empty volume that any claim of this class could use.
	empty := parse(t, volumeJSON("empty", "Retain", ""))
	unstructured.RemoveNestedField(empty.Object, "spec", "claimRef")
	if err := c.Create(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	c.awaitPhase(t, empty, string(corev1.VolumeAvailable))
	restored := c.restore(t, archived, run("", ""))

	// A later claim without a volumeName binds, which proves that the controller had its
	// chance with the restored one.
	other := parse(t, claimJSON("empty"))
	other.SetName("other")
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	c.awaitPhase(t, other, string(corev1.ClaimBound))
	if phase := action.Get[string](c.refresh(t, restored).Object, "status", "phase"); phase != string(corev1.ClaimPending) {
		t.Errorf("the restored claim is %q, want it to wait for its own volume", phase)
	}
}
