// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// deleteArchived calls the action for an archived content.
func (w *world) deleteArchived(content *unstructured.Unstructured) error {
	return deleteContent{w.cluster}.Execute(w.Context(), &item.DeleteRequest{Item: content, Backup: w.backup})
}

// forgetObjects removes the objects of a snapshot, which stays in the driver: as in a cluster that has only imported
// the backup.
func (w *world) forgetObjects(content *unstructured.Unstructured) {
	w.Helper()
	for _, snapshot := range w.listOwnSnapshots(w.namespace) {
		w.must(w.snapshots.SnapshotV1().VolumeSnapshots(w.namespace).Delete(w.Context(), snapshot.Name, metav1.DeleteOptions{}))
	}
	w.eventually("the VolumeSnapshots no longer exist", func() bool { return len(w.listOwnSnapshots(w.namespace)) == 0 })
	w.must(w.snapshotContents.delete(w.Context(), content.GetName()))
	w.eventually("the content no longer exists", func() bool {
		found, err := w.snapshotContents.get(w.Context(), content.GetName())
		w.must(err)
		return found == nil
	})
}

// TestDeleteContent deletes snapshots with and without their objects, repeatedly.
func TestDeleteContent(t *testing.T) {
	for name, prepare := range map[string]func(w *world, b backedUp){
		"the objects exist": func(*world, backedUp) {},
		"the namespace was deleted": func(w *world, _ backedUp) {
			w.must(w.core.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}))
			w.eventually("the VolumeSnapshots no longer exist", func() bool { return len(w.listOwnSnapshots(w.namespace)) == 0 })
		},
		"another cluster": func(w *world, b backedUp) { w.forgetObjects(b.content) },
		"the snapshot is gone": func(w *world, b backedUp) {
			w.forgetObjects(b.content)
			w.must(driverdir.Remove[driverdir.Snapshot](stack.Dir(), mustString(b.content, "status", "snapshotHandle")))
		},
		"the driver fails at first": func(w *world, b backedUp) {
			w.forgetObjects(b.content)
			// csi-snapshotter cannot find out whether the snapshot exists.
			w.setFaults(driverdir.Faults{Calls: map[string]driverdir.Fault{"ListSnapshots": {Code: codes.Unavailable}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			claim := w.createVolume("data")
			handle := w.handleOfItem(claim)
			b := w.backUp(claim)
			prepare(w, b)
			w.restartPlugin()
			for range 2 {
				w.must(w.deleteArchived(b.content))
				if n := w.driverSnapshots(handle); n != 0 {
					t.Errorf("the driver has %d snapshots, want none", n)
				}
			}
			contents, err := w.snapshots.SnapshotV1().VolumeSnapshotContents().List(t.Context(), metav1.ListOptions{LabelSelector: labelRunUID + "=" + w.backup.UID})
			if err != nil || len(contents.Items) > 0 {
				t.Errorf("there are %d contents, %v", len(contents.Items), err)
			}
		})
	}
}

// TestDeleteContent_Foreign does not delete what is not of the backup.
func TestDeleteContent_Foreign(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	b := w.backUp(claim)
	other := *w
	other.backup.UID = "4d7c7e3e-0000-4000-8000-0000000000d1"
	// A later backup has archived the content of an earlier one.
	w.must(other.deleteArchived(b.content))
	// An archive was changed to delete the snapshot of another backup.
	forged := b.content.DeepCopy()
	forged.SetName("snapcontent-forged")
	forged.SetLabels(map[string]string{labelRunUID: other.backup.UID})
	if err := other.deleteArchived(forged); err == nil || !strings.Contains(err.Error(), "uses it, too") {
		t.Errorf("the error is %v", err)
	}
	for what, edit := range map[string]func(*unstructured.Unstructured){
		"driver": func(c *unstructured.Unstructured) {
			w.must(unstructured.SetNestedField(c.Object, "not a driver", "spec", "driver"))
		},
		"namespace": func(c *unstructured.Unstructured) {
			w.must(unstructured.SetNestedField(c.Object, "../x", "spec", "volumeSnapshotRef", "namespace"))
		},
		"handle": func(c *unstructured.Unstructured) {
			w.must(unstructured.SetNestedField(c.Object, strings.Repeat("x", 1<<16), "status", "snapshotHandle"))
		},
	} {
		damaged := b.content.DeepCopy()
		edit(damaged)
		if err := w.deleteArchived(damaged); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	if n := w.driverSnapshots(w.handleOfItem(claim)); n != 1 {
		t.Errorf("the driver has %d snapshots, want one", n)
	}
}

// TestDeleteSnapshots deletes all snapshots of a backup, also those that are not in the archive and not ready.
func TestDeleteSnapshots(t *testing.T) {
	w := newWorld(t)
	first, second := w.createVolume("first"), w.createVolume("second")
	kept := *w
	kept.backup.UID = "4d7c7e3e-0000-4000-8000-0000000000e1"
	keptBackup := kept.backUp(first)
	b := w.backUp(first)
	w.setFaults(driverdir.Faults{NeverReady: true})
	w.capture(second)
	action := deleteSnapshots{w.cluster}
	for range 2 {
		w.must(action.Execute(t.Context(), &deletev1.DeleteRequest{Backup: w.backup}))
	}
	w.eventually("only the snapshot of the other backup is left", func() bool {
		return w.driverSnapshots(w.handleOfItem(first), w.handleOfItem(second)) == 1
	})
	calls, err := stack.Dir().LoadCalls("DeleteSnapshot")
	w.must(err)
	w.must(w.deleteArchived(b.content))
	if again, err := stack.Dir().LoadCalls("DeleteSnapshot"); err != nil || len(again) != len(calls) {
		t.Errorf("the driver got %d further calls, %v", len(again)-len(calls), err)
	}
	w.setFaults(driverdir.Faults{})
	w.must(kept.deleteArchived(keptBackup.content))
	if err := action.Execute(t.Context(), &deletev1.DeleteRequest{Backup: item.Backup{UID: "a,b"}}); err == nil {
		t.Error("a UID that is a selector was accepted")
	}
}

// TestDiscardSnapshots deletes the snapshots of a backup that was canceled, and of no other.
func TestDiscardSnapshots(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	w.backUp(claim)
	for _, tc := range []struct {
		phase string
		want  int
	}{{"Completed", 1}, {"PartiallyFailed", 1}, {"Cancelled", 0}, {"Cancelled", 0}} {
		w.backup.Phase = tc.phase
		before := w.driverSnapshots(w.handleOfItem(claim))
		resp, err := discardSnapshots{w.cluster}.Execute(t.Context(), &hook.Request{Backup: w.backup})
		w.must(err)
		if before != tc.want && !strings.Contains(resp.Message, "it is Cancelled, and only") {
			t.Errorf("the message is %q", resp.Message)
		}
		if n := w.driverSnapshots(w.handleOfItem(claim)); n != tc.want {
			t.Errorf("%s: the driver has %d snapshots, want %d", tc.phase, n, tc.want)
		}
	}
}

// TestDeleteContent_NoDriver fails with the next step, and leaves nothing, if the cluster does not have the driver.
func TestDeleteContent_NoDriver(t *testing.T) {
	w := newWorld(t)
	b := w.backUp(w.createVolume("data"))
	w.must(unstructured.SetNestedField(b.content.Object, "other.example.org", "spec", "driver"))
	b.content.SetName("snapcontent-other")
	err := w.deleteArchived(b.content)
	if err == nil || !strings.Contains(err.Error(), "install the driver in this cluster, or delete its snapshot") {
		t.Errorf("the error is %v", err)
	}
	name := nameFor("delete", "other.example.org", mustString(b.content, "status", "snapshotHandle"))
	w.eventually("the content no longer exists", func() bool {
		content, err := w.snapshotContents.get(t.Context(), name)
		w.must(err)
		return content == nil
	})
}

// TestRequestRemoval_ContentStays removes a snapshot whose VolumeSnapshot snapshot-controller has deleted without its
// content: it did not know yet that the policy of the content had changed.
func TestRequestRemoval_ContentStays(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	b := w.backUp(claim)
	w.must(stack.StopProgram(csi.SnapshotController))
	t.Cleanup(func() { w.must(stack.StartSidecar(csi.SnapshotController)) })
	snapshot := w.listOwnSnapshots(w.namespace)[0]
	key := types.NamespacedName{Namespace: w.namespace, Name: snapshot.Name}
	w.must(w.requestRemoval(t.Context(), key, snapshot.UID))
	_, err := w.snapshots.SnapshotV1().VolumeSnapshots(w.namespace).Patch(t.Context(), snapshot.Name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(err)
	w.must(w.continueRemovals(t.Context()))
	w.eventually("nothing is left", func() bool {
		content, err := w.snapshotContents.get(t.Context(), b.content.GetName())
		w.must(err)
		return content == nil && w.driverSnapshots(w.handleOfItem(claim)) == 0
	})
}
