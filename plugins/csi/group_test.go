// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

func inGroup(key string) func(*corev1.PersistentVolumeClaim) {
	return func(claim *corev1.PersistentVolumeClaim) { claim.Labels = map[string]string{key: "database"} }
}

// captureGroup captures claims as a group, and returns their operations.
func (w *world) captureGroup(claims ...*unstructured.Unstructured) []*asyncbackupitemv1.Started {
	w.Helper()
	all := make([]*asyncbackupitemv1.Started, len(claims))
	w.must(concurrently(len(claims), func(i int) (err error) {
		all[i], err = captureClaim{w.cluster}.Start(w.Context(), &item.BackupRequest{Item: claims[i].DeepCopy(), Backup: w.backup})
		return err
	}))
	return all
}

func (w *world) driverGroups(volume string) (groups []driverdir.Group) {
	w.Helper()
	records, err := driverdir.List[driverdir.Group](stack.Dir())
	w.must(err)
	for _, record := range records {
		for _, id := range record.VolumeIDs {
			if id == volume {
				groups = append(groups, record)
			}
		}
	}
	return groups
}

func (w *world) archivedGroup(started *asyncbackupitemv1.Started) *unstructured.Unstructured {
	w.Helper()
	content, err := w.groupContents.get(w.Context(), groupContentNameOf(mustParseID(w.T, started.OperationID).uid))
	w.must(err)
	return toItem(w, content, groupsnapshotv1.SchemeGroupVersion.String(), "VolumeGroupSnapshotContent")
}

// forgetGroup is forgetObjects for a group.
func (w *world) forgetGroup(group, member *unstructured.Unstructured) {
	w.Helper()
	w.must(w.snapshots.GroupsnapshotV1().VolumeGroupSnapshots(w.namespace).DeleteCollection(w.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.eventually("the VolumeSnapshots no longer exist", func() bool { return len(w.listOwnSnapshots(w.namespace)) == 0 })
	w.must(w.groupContents.delete(w.Context(), group.GetName()))
	w.must(w.eachContent(w.Context(), metav1.ListOptions{LabelSelector: labelRunUID + "=" + w.backup.UID}, func(c *snapshotv1.VolumeSnapshotContent) {
		w.must(w.snapshotContents.delete(w.Context(), c.Name))
	}))
	w.eventually("the contents no longer exist", func() bool {
		found, err := w.snapshotContents.get(w.Context(), member.GetName())
		w.must(err)
		return found == nil
	})
}

// TestGroup captures three claims together, restores one of them, and deletes the snapshots with and without their
// objects.
func TestGroup(t *testing.T) {
	for name, deletes := range map[string]func(w *world, group, member *unstructured.Unstructured) error{
		"by the backup": func(w *world, _, _ *unstructured.Unstructured) error {
			return deleteSnapshots{w.cluster}.Execute(t.Context(), &deletev1.DeleteRequest{Backup: w.backup})
		},
		"by the content": func(w *world, group, _ *unstructured.Unstructured) error { return w.deleteArchived(group) },
		"after the namespace was deleted": func(w *world, group, _ *unstructured.Unstructured) error {
			w.must(w.core.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}))
			w.eventually("the VolumeSnapshots no longer exist", func() bool { return len(w.listOwnSnapshots(w.namespace)) == 0 })
			return w.deleteArchived(group)
		},
		"in another cluster": func(w *world, group, member *unstructured.Unstructured) error {
			w.forgetGroup(group, member)
			w.must(w.deleteArchived(member))
			return w.deleteArchived(group)
		},
		"in another cluster, with a driver that fails at first": func(w *world, group, member *unstructured.Unstructured) error {
			w.forgetGroup(group, member)
			w.setFaults(driverdir.Faults{Calls: map[string]driverdir.Fault{"GetVolumeGroupSnapshot": {Code: codes.Unavailable}}})
			return w.deleteArchived(group)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			claims := []*unstructured.Unstructured{
				w.createVolume("a", inGroup(defaultGroupLabel)), w.createVolume("b", inGroup(defaultGroupLabel)), w.createVolume("c", inGroup(defaultGroupLabel)),
			}
			started := w.captureGroup(claims...)
			for _, one := range started {
				w.awaitProgress(one, "the data is captured", func(p *item.Progress) bool { return p.DataCaptured })
				w.restartPlugin()
				completed := w.awaitProgress(one, "it is ready", isCompleted)
				wantContains(t, "the description", completed.Description, "together")
			}
			handle, second := w.handleOfItem(claims[0]), w.handleOfItem(claims[1])
			if groups := w.driverGroups(handle); len(groups) != 1 || len(groups[0].SnapshotIDs) != 3 {
				t.Fatalf("the driver has the groups %v", groups)
			}
			b := backedUp{claim: started[1].Item, content: w.archivedContent(started[1])}
			target := w.createNamespace()
			restored, err := w.startRestore(b, target)
			w.must(err)
			w.createRestored(restored, target)
			w.awaitRestored(restored, "the claim is restored", isCompleted)
			if data, err := os.ReadFile(w.dataPath(w.awaitBound(target, "b"))); err != nil || string(data) != "b" {
				t.Errorf("the restored volume has %q, %v", data, err)
			}
			w.wantNoLeftovers(restored)
			w.must(deletes(w, w.archivedGroup(started[0]), b.content))
			w.eventually("the driver has no snapshot", func() bool {
				return len(w.driverGroups(handle)) == 0 && w.driverSnapshots(handle, second) == 0
			})
		})
	}
}

// TestGroup_Apart captures the claims of a group separately, because one of them is not bound, and tells how far apart.
func TestGroup_Apart(t *testing.T) {
	w := newWorld(t)
	w.backup.Raw = []byte(`{"spec":{"volumeGroupSnapshotLabelKey":"example.org/together"}}`)
	claims := []*unstructured.Unstructured{w.createVolume("a", inGroup("example.org/together")), w.createVolume("b", inGroup("example.org/together"))}
	w.createClaim("unbound", csi.WaitClassName, inGroup("example.org/together"))
	started := w.captureGroup(claims...)
	for _, one := range started {
		w.awaitProgress(one, "it is ready", isCompleted)
	}
	const want = "the claims with the label example.org/together=database were captured separately: claim unbound is not bound; their 2 snapshots were taken within "
	for _, one := range started {
		wantContains(t, "the warning", w.progress(one).Warning, want)
	}
	if groups := w.driverGroups(w.handleOfItem(claims[0])); len(groups) != 0 {
		t.Errorf("the driver has the groups %v", groups)
	}
}

// TestGroup_Cancel removes the whole group, and not that of a later call.
func TestGroup_Cancel(t *testing.T) {
	w := newWorld(t)
	claims := []*unstructured.Unstructured{w.createVolume("a", inGroup(defaultGroupLabel)), w.createVolume("b", inGroup(defaultGroupLabel))}
	earlier := w.captureGroup(claims...)
	later := w.captureGroup(claims...)
	if p := w.progress(earlier[0]); p.Completed {
		t.Errorf("the earlier operation ends before it is canceled: %+v", p)
	}
	w.must(captureClaim{w.cluster}.Cancel(t.Context(), w.operation(earlier[0])))
	if p := w.progress(earlier[0]); !p.Completed || !p.Cancelled {
		t.Errorf("the earlier operation: %+v", p)
	}
	w.awaitProgress(later[0], "it is ready", isCompleted)
	w.must(captureClaim{w.cluster}.Cancel(t.Context(), w.operation(later[0])))
	w.awaitProgress(later[1], "it is ready", isCompleted)

	// A group that the driver does not finish is removed.
	w.backup.UID = "4d7c7e3e-0000-4000-8000-0000000000f1"
	w.setFaults(driverdir.Faults{NeverReady: true})
	later = w.captureGroup(claims...)
	w.awaitProgress(later[0], "the data is captured", func(p *item.Progress) bool { return p.DataCaptured })
	for _, one := range later {
		w.must(captureClaim{w.cluster}.Cancel(t.Context(), w.operation(one)))
	}
	w.eventually("only the first group is left", func() bool {
		return len(w.driverGroups(w.handleOfItem(claims[0]))) == 1 && len(w.listOwnSnapshots(w.namespace)) == 2
	})
	w.awaitProgress(later[0], "the operation has ended", isFailed)
}

// TestGroup_CancelUnseen cancels, and polls with what was read before: see TestCaptureClaim_CancelUnseen.
func TestGroup_CancelUnseen(t *testing.T) {
	w := newWorld(t)
	claims := []*unstructured.Unstructured{w.createVolume("a", inGroup(defaultGroupLabel)), w.createVolume("b", inGroup(defaultGroupLabel))}
	w.setFaults(driverdir.Faults{NeverReady: true})
	started := w.captureGroup(claims...)
	id := mustParseID(t, started[0].OperationID)
	var seen observedGroup
	w.eventually("all objects exist and are retained", func() bool {
		var err error
		seen, err = w.observeGroup(t.Context(), id, w.backup)
		w.must(err)
		return isGroupTaken(seen.groupContent) && isCaptured(seen.content)
	})
	w.must(stack.StopProgram(csi.SnapshotController)) // the objects stay until it runs again
	t.Cleanup(func() { _ = stack.StartSidecar(csi.SnapshotController) })
	w.must(captureClaim{w.cluster}.Cancel(t.Context(), w.operation(started[1])))
	// Progress that has read everything before, of this process and of another one.
	for range 2 {
		before := seen
		before.groupContent, before.content = seen.groupContent.DeepCopy(), seen.content.DeepCopy()
		before.groupContent.Spec.DeletionPolicy, before.content.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentDelete, snapshotv1.VolumeSnapshotContentDelete
		w.must(w.retainGroup(t.Context(), &before, w.backup))
		// Progress that has read the group before, and its contents later.
		later := observedGroup{operation: id, group: seen.group}
		var err error
		later.groupContent, err = w.groupContents.get(t.Context(), seen.groupContent.Name)
		w.must(err)
		later.content, err = w.snapshotContents.get(t.Context(), seen.content.Name)
		w.must(err)
		w.must(w.retainGroup(t.Context(), &later, w.backup))
		w.restartPlugin()
	}
	groupContent, err := w.groupContents.get(t.Context(), seen.groupContent.Name)
	w.must(err)
	content, err := w.snapshotContents.get(t.Context(), seen.content.Name)
	w.must(err)
	if groupContent.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete || content.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete {
		t.Errorf("the contents have the policies %s and %s", groupContent.Spec.DeletionPolicy, content.Spec.DeletionPolicy)
	}
}

// TestGroup_RestoreInPlace restores a claim of a group into its own namespace, which still has the VolumeGroupSnapshot.
func TestGroup_RestoreInPlace(t *testing.T) {
	w := newWorld(t)
	claims := []*unstructured.Unstructured{w.createVolume("a", inGroup(defaultGroupLabel)), w.createVolume("b", inGroup(defaultGroupLabel))}
	started := w.captureGroup(claims...)
	for _, one := range started {
		w.awaitProgress(one, "it is ready", isCompleted)
	}
	handle := w.handleOfItem(claims[0])
	w.must(w.core.CoreV1().PersistentVolumeClaims(w.namespace).Delete(t.Context(), "b", metav1.DeleteOptions{}))
	w.eventually("the claim no longer exists", func() bool {
		_, err := w.core.CoreV1().PersistentVolumeClaims(w.namespace).Get(t.Context(), "b", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	w.wantData(w.restoreInto(backedUp{claim: started[1].Item, content: w.archivedContent(started[1])}, w.namespace), "b")
	if groups := w.driverGroups(handle); len(groups) != 1 || len(w.listOwnSnapshots(w.namespace)) != 2 {
		t.Errorf("the driver has the groups %v, want that of the backup", groups)
	}
}
