// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// TestCaptureClaim_NamespaceDeleted captures a claim with a driver whose snapshots need time to become ready, and
// deletes the namespace in between: the snapshot stays, and the operation completes.
func TestCaptureClaim_NamespaceDeleted(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	w.setFaults(driverdir.Faults{NeverReady: true})
	started := w.capture(claim)
	captured := w.awaitProgress(started, "the data is captured", func(p *item.Progress) bool { return p.DataCaptured })
	if captured.Completed || captured.NCompleted != 1 {
		t.Errorf("the progress is %+v", captured)
	}
	content := w.archivedContent(started)
	if policy, _, _ := unstructured.NestedString(content.Object, "spec", "deletionPolicy"); policy != "Retain" || content.GetLabels()[labelRunUID] != w.backup.UID {
		t.Errorf("the content has policy %s and labels %v", policy, content.GetLabels())
	}
	w.must(w.core.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}))
	w.eventually("the VolumeSnapshot no longer exists", func() bool { return len(w.listOwnSnapshots(w.namespace)) == 0 })
	w.eventually("the watch has seen it", func() bool {
		p := w.progress(started)
		return !p.Completed && p.DataCaptured
	})
	w.setFaults(driverdir.Faults{})
	w.restartPlugin()
	w.awaitProgress(started, "the snapshot is ready", isCompleted)
	if n := w.driverSnapshots(mustString(content, "spec", "source", "volumeHandle")); n != 1 {
		t.Errorf("the driver has %d snapshots, want one", n)
	}
}

func mustString(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}

// TestCaptureClaim_RepeatedStart checks that there is one snapshot however often Start is called, and that the end
// of an earlier operation does not affect the later one.
func TestCaptureClaim_RepeatedStart(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	earlier := w.capture(claim)
	w.awaitProgress(earlier, "it is ready", isCompleted)
	w.capture(claim)
	w.eventually("the watch has seen the takeover", func() bool {
		p := w.progress(earlier)
		if !isCompleted(p) {
			t.Errorf("the earlier operation does not stay completed: %+v", p)
		}
		return strings.Contains(p.Description, "before a later call")
	})
	w.restartPlugin()
	later := w.capture(claim)
	if earlier.OperationID == later.OperationID {
		t.Fatal("both have the same ID")
	}
	// The operator cancels the earlier operation when it has recorded the later one: it must not look like a failure before.
	if p := w.progress(earlier); p.Completed || p.DataCaptured {
		t.Errorf("the earlier operation: %+v", p)
	}
	for range 2 {
		w.must(captureClaim{w.cluster}.Cancel(t.Context(), w.operation(earlier)))
	}
	if p := w.progress(earlier); !p.Completed || !p.Cancelled {
		t.Errorf("the earlier operation: %+v", p)
	}
	w.restartPlugin()
	w.progress(earlier)
	backdate(&w.superseded, earlier.OperationID, takeoverTimeout)
	wantContains(t, "the error", w.awaitProgress(earlier, "it does not wait longer", isFailed).Err, "its answer was lost")
	w.awaitProgress(later, "it is ready", isCompleted)
	if n := w.driverSnapshots(w.handleOfItem(claim)); n != 1 || len(w.listOwnSnapshots(w.namespace)) != 1 {
		t.Errorf("the driver has %d snapshots, want one", n)
	}
	// Another backup of the same claim has a snapshot of its own.
	other := *w
	other.backup.UID = "4d7c7e3e-0000-4000-8000-000000000009"
	w.awaitProgress(other.capture(claim), "it is ready", isCompleted)
	if n := w.driverSnapshots(w.handleOfItem(claim)); n != 2 {
		t.Errorf("the driver has %d snapshots, want two", n)
	}
}

// TestCaptureClaim_Cancel cancels at each step, and restarts the plugin in between: nothing is left.
func TestCaptureClaim_Cancel(t *testing.T) {
	for name, tc := range map[string]struct {
		faults driverdir.Faults
		until  func(*item.Progress) bool
	}{
		"at once":             {until: func(*item.Progress) bool { return true }},
		"while it is taken":   {faults: driverdir.Faults{Calls: map[string]driverdir.Fault{"CreateSnapshot": {Code: codes.Unavailable, AfterWork: true}}}, until: func(p *item.Progress) bool { return strings.Contains(p.Description, "Unavailable") }},
		"while it is failing": {faults: driverdir.Faults{Calls: map[string]driverdir.Fault{"CreateSnapshot": {Code: codes.Internal}}}, until: func(p *item.Progress) bool { return strings.Contains(p.Description, "Internal") }},
		"while it is moved":   {faults: driverdir.Faults{NeverReady: true}, until: func(p *item.Progress) bool { return p.DataCaptured }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			claim := w.createVolume("data")
			handle := w.handleOfItem(claim)
			w.setFaults(tc.faults)
			started := w.capture(claim)
			w.awaitProgress(started, name, tc.until)
			w.restartPlugin()
			for range 2 {
				w.must(captureClaim{w.cluster}.Cancel(t.Context(), w.operation(started)))
			}
			w.setFaults(driverdir.Faults{})
			w.eventually("the operation has ended", func() bool {
				p := w.progress(started)
				return p.Completed && p.Err != ""
			})
			w.eventually("nothing is left", func() bool {
				content, err := w.snapshotContents.get(t.Context(), contentNameOf(mustParseID(t, started.OperationID).uid))
				w.must(err)
				return content == nil && len(w.listOwnSnapshots(w.namespace)) == 0 && w.driverSnapshots(handle) == 0
			})
		})
	}
}

// TestCaptureClaim_CancelUnseen cancels, and polls before the watch shows that: a content whose removal was requested must not be retained
// again, or its snapshot stays in the driver when the content is removed.
func TestCaptureClaim_CancelUnseen(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	w.setFaults(driverdir.Faults{NeverReady: true})
	started := w.capture(claim)
	w.awaitProgress(started, "the data is captured", func(p *item.Progress) bool { return p.DataCaptured })
	w.must(stack.StopProgram(csi.SnapshotController)) // the objects stay until it runs again
	t.Cleanup(func() { _ = stack.StartSidecar(csi.SnapshotController) })
	id := mustParseID(t, started.OperationID)
	stale, err := w.snapshotContents.get(t.Context(), contentNameOf(id.uid))
	w.must(err)
	w.must(captureClaim{w.cluster}.Cancel(t.Context(), w.operation(started)))
	// csi-snapshotter replaces annotations with those that it has read before.
	_, err = w.snapshotContents.patch(t.Context(), stale.Name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationRemovalRequested: nil}}})
	w.must(err)
	// Progress that has read the content before.
	stale.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentDelete
	_, err = w.snapshotContents.retain(t.Context(), stale, w.backup)
	w.must(err)
	// Progress of this process and of another one whose watch is behind.
	for range 2 {
		snapshot, err := w.readSnapshot(t.Context(), id.object, id.uid)
		w.must(err)
		snapshot.DeletionTimestamp = nil
		w.must(w.observeContent(t.Context(), &observedSnapshot{operation: id, snapshot: snapshot}, w.backup))
		w.restartPlugin()
	}
	content, err := w.snapshotContents.get(t.Context(), contentNameOf(id.uid))
	w.must(err)
	if content.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete {
		t.Errorf("the content has the policy %s", content.Spec.DeletionPolicy)
	}
}

// TestRemoveSnapshotsOfRun_Retained removes a snapshot whose VolumeSnapshot is being deleted, while snapshot-controller still sees
// that the content is retained: it removes the VolumeSnapshot alone.
func TestRemoveSnapshotsOfRun_Retained(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	started := w.capture(claim)
	w.awaitProgress(started, "it is ready", isCompleted)
	id := mustParseID(t, started.OperationID)
	w.must(stack.StopProgram(csi.SnapshotController))
	t.Cleanup(func() { _ = stack.StartSidecar(csi.SnapshotController) })
	removed := make(chan error, 1)
	go func() {
		_, err := w.removeSnapshotsOfRun(t.Context(), w.backup.UID)
		removed <- err
	}()
	snapshots := w.snapshots.SnapshotV1().VolumeSnapshots(id.object.Namespace)
	w.eventually("the VolumeSnapshot is being deleted", func() bool {
		snapshot, err := snapshots.Get(t.Context(), id.object.Name, metav1.GetOptions{})
		return err == nil && snapshot.DeletionTimestamp != nil
	})
	_, err := snapshots.Patch(t.Context(), id.object.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(err)
	w.eventually("the snapshot is removed", func() bool {
		select {
		case err := <-removed:
			w.must(err)
			return true
		default:
			return false
		}
	})
	if n := w.driverSnapshots(w.handleOfItem(claim)); n != 0 {
		t.Errorf("the driver has %d snapshots, want none", n)
	}
}

// TestCaptureClaim_Reminded reminds csi-snapshotter of a snapshot that is not ready for long.
func TestCaptureClaim_Reminded(t *testing.T) {
	w := newWorld(t)
	w.setFaults(driverdir.Faults{NeverReady: true})
	started := w.capture(w.createVolume("data"))
	w.awaitProgress(started, "the data is captured", func(p *item.Progress) bool { return p.DataCaptured })
	id := mustParseID(t, started.OperationID)
	w.progress(started)
	// csi-snapshotter replaces all annotations by those that it has last seen, so one reminder may be lost.
	w.eventually("the content has a reminder", func() bool {
		// As if the last one was long ago.
		backdate(&w.waiting, string(id.uid), reminderInterval)
		w.progress(started)
		content, err := w.snapshotContents.get(t.Context(), contentNameOf(id.uid))
		w.must(err)
		if content.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentRetain {
			t.Errorf("the content is %+v", content)
		}
		return content.Annotations[annotationReminded] != ""
	})
}

// TestCaptureClaim_CancelCompleted keeps a snapshot that was ready before Cancel.
func TestCaptureClaim_CancelCompleted(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	started := w.capture(claim)
	w.awaitProgress(started, "it is ready", isCompleted)
	w.restartPlugin()
	w.must(captureClaim{w.cluster}.Cancel(t.Context(), w.operation(started)))
	if p := w.progress(started); !isCompleted(p) || w.driverSnapshots(w.handleOfItem(claim)) != 1 {
		t.Errorf("the progress is %+v", p)
	}
}

// TestCaptureClaim_ContentReady polls an operation whose content is ready before its VolumeSnapshot: it stays completed.
func TestCaptureClaim_ContentReady(t *testing.T) {
	w := newWorld(t)
	w.setFaults(driverdir.Faults{NeverReady: true})
	started := w.capture(w.createVolume("data"))
	w.awaitProgress(started, "the data is captured", func(p *item.Progress) bool { return p.DataCaptured })
	w.must(stack.StopProgram(csi.SnapshotController)) // the VolumeSnapshot is not ready until it runs again
	t.Cleanup(func() { w.must(stack.StartSidecar(csi.SnapshotController)) })
	w.setFaults(driverdir.Faults{})
	w.eventually("the content is ready", func() bool {
		content, err := w.snapshotContents.get(t.Context(), contentNameOf(mustParseID(t, started.OperationID).uid))
		w.must(err)
		return isContentReady(content)
	})
	w.restartPlugin()
	for range 2 {
		if p := w.progress(started); !isCompleted(p) {
			t.Errorf("the progress is %+v", p)
		}
	}
}

func mustParseID(t *testing.T, id string) operationID {
	t.Helper()
	parsed, err := parseOperationID(id, operationSnapshot, operationGroup, operationRestore)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestCaptureClaim_Killed kills the plugin and each program of the driver at each step.
func TestCaptureClaim_Killed(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	w.setFaults(driverdir.Faults{NeverReady: true})
	started := w.capture(claim)
	for _, name := range []csi.Program{csi.SnapshotController, csi.Snapshotter, csi.Driver} {
		w.must(stack.KillProgram(name))
		w.restartPlugin()
		w.progress(started)
	}
	w.awaitProgress(started, "the data is captured", func(p *item.Progress) bool { return p.DataCaptured })
	w.must(stack.KillProgram(csi.Snapshotter))
	w.restartPlugin()
	if p := w.progress(started); !p.DataCaptured {
		t.Errorf("the new process does not know that the data is captured: %+v", p)
	}
	w.setFaults(driverdir.Faults{})
	w.awaitProgress(started, "it is ready", isCompleted)
	if n := w.driverSnapshots(w.handleOfItem(claim)); n != 1 {
		t.Errorf("the driver has %d snapshots, want one", n)
	}
}

// TestCaptureClaim_Quota checks that a claim is archived without its data if the API server rejects its snapshot.
func TestCaptureClaim_Quota(t *testing.T) {
	w := newWorld(t)
	first, second := w.createVolume("first"), w.createVolume("second")
	_, err := w.core.CoreV1().ResourceQuotas(w.namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/volumesnapshots.snapshot.storage.k8s.io": resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.eventually("the quota is known", func() bool {
		quota, err := w.core.CoreV1().ResourceQuotas(w.namespace).Get(t.Context(), "few", metav1.GetOptions{})
		w.must(err)
		return len(quota.Status.Hard) > 0
	})
	started := w.capture(first)
	w.awaitProgress(started, "it is ready", isCompleted)
	rejected, err := captureClaim{w.cluster}.Start(t.Context(), &item.BackupRequest{Item: second, Backup: w.backup})
	w.must(err)
	if want := "the API server rejected the snapshot (exceeded quota: few): allow it, for example by raising the quota of the namespace, " +
		"and back up again"; rejected.DataNotCaptured != want || rejected.OperationID != "" {
		t.Errorf("the answer is %+v, want %q", rejected, want)
	}
	// The quota does not prevent a repeated call.
	w.awaitProgress(w.capture(first), "it is ready", isCompleted)
}

// TestCaptureClaim_Unusual checks claims that are not captured, and some that are, in a real cluster.
func TestCaptureClaim_Unusual(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		claim func() *corev1.PersistentVolumeClaim
		want  string
	}{
		"unbound":        {claim: func() *corev1.PersistentVolumeClaim { return w.createClaim("unbound", "missing") }, want: "not bound"},
		"first consumer": {claim: func() *corev1.PersistentVolumeClaim { return w.createClaim("waits", csi.WaitClassName) }, want: "not bound"},
		"no CSI": {claim: func() *corev1.PersistentVolumeClaim {
			_, err := w.core.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
				Spec: corev1.PersistentVolumeSpec{
					Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, StorageClassName: w.namespace,
					AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs", Path: "/"}},
				},
			}, metav1.CreateOptions{})
			w.must(err)
			w.createClaim("nfs", w.namespace)
			return w.awaitBound(w.namespace, "nfs")
		}, want: "no CSI volume (nfs)"},
	} {
		t.Run(name, func(t *testing.T) {
			request := &item.BackupRequest{Item: toItem(w, tc.claim(), "v1", "PersistentVolumeClaim"), Backup: w.backup}
			started, err := captureClaim{w.cluster}.Start(t.Context(), request)
			w.must(err)
			checked, err := captureClaim{w.cluster}.CheckCapture(t.Context(), request)
			w.must(err)
			wantContains(t, "the reason", started.DataNotCaptured, tc.want)
			if started.OperationID != "" || checked != started.DataNotCaptured {
				t.Errorf("the answer is %+v, that of the check is %q", started, checked)
			}
		})
	}
	if n := len(w.listOwnSnapshots(w.namespace)); n != 0 {
		t.Errorf("there are %d VolumeSnapshots, want none", n)
	}
}

// TestCaptureClaim_ForeignSnapshot checks that a VolumeSnapshot that a user created under the expected name, of a
// content that is not of the claim, is not taken over.
func TestCaptureClaim_ForeignSnapshot(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	other := "content-of-others"
	_, err := w.snapshots.SnapshotV1().VolumeSnapshots(w.namespace).Create(t.Context(), &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Name: nameFor("snapshot", w.backup.UID, string(claim.GetUID())), Labels: runLabels(labelBackupName, "nightly", w.backup.UID)},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &other}},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = captureClaim{w.cluster}.Start(t.Context(), &item.BackupRequest{Item: claim, Backup: w.backup})
	if err == nil || !strings.Contains(err.Error(), "was not created by this Backup or Restore: delete it, and back up or restore again") {
		t.Errorf("the error is %v", err)
	}
}

// TestCaptureClaim_Fails lets the driver fail for long: the operation fails, and its objects are removed.
func TestCaptureClaim_Fails(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	w.setFaults(driverdir.Faults{Calls: map[string]driverdir.Fault{"CreateSnapshot": {Code: codes.ResourceExhausted}}})
	started := w.capture(claim)
	w.awaitProgress(started, "the error is shown", func(p *item.Progress) bool { return strings.Contains(p.Description, "ResourceExhausted") })
	// As if the first error was long ago.
	backdate(&w.failing, string(mustParseID(t, started.OperationID).uid), failAfter)
	wantContains(t, "the error", w.awaitProgress(started, "it has failed", isFailed).Err, "back up again")
	w.setFaults(driverdir.Faults{})
	w.eventually("nothing is left", func() bool {
		w.must(w.continueRemovals(t.Context()))
		return len(w.listOwnSnapshots(w.namespace)) == 0 && w.driverSnapshots(w.handleOfItem(claim)) == 0
	})
	w.must(w.continueRemovals(t.Context()))
	if left := w.removing.keys(); len(left) > 0 {
		t.Errorf("%v are still remembered", left)
	}
	if p := w.progress(started); !isFailed(p) {
		t.Errorf("the progress is no longer final: %+v", p)
	}
}

// TestCaptureClaim_Concurrent captures many claims at once, from a class that several calls read at the same time.
func TestCaptureClaim_Concurrent(t *testing.T) {
	w := newWorld(t)
	const claims = 500
	items := make([]*unstructured.Unstructured, claims)
	for i := range claims {
		w.createClaim(fmt.Sprint("data-", i), csi.ClassName)
	}
	for i := range claims {
		items[i] = toItem(w, w.awaitBound(w.namespace, fmt.Sprint("data-", i)), "v1", "PersistentVolumeClaim")
	}
	started := make([]*asyncbackupitemv1.Started, claims)
	w.must(concurrently(claims, func(i int) (err error) {
		started[i], err = captureClaim{w.cluster}.Start(t.Context(), &item.BackupRequest{Item: items[i], Backup: w.backup})
		return err
	}))
	for i := range claims {
		w.awaitProgress(started[i], "it is ready", isCompleted)
	}
	removed, err := w.removeSnapshotsOfRun(t.Context(), w.backup.UID)
	if err != nil || removed != claims {
		t.Errorf("removed %d, %v", removed, err)
	}
}

func TestNewRejectedError(t *testing.T) {
	gr := snapshotv1.Resource("volumesnapshots")
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"quota":    {err: apierrors.NewForbidden(gr, "grapnel-1", errors.New("exceeded quota: few, requested: count/x=1, used: count/x=1, limited: count/x=1")), want: "exceeded quota: few"},
		"webhook":  {err: apierrors.NewForbidden(gr, "grapnel-1", errors.New("admission webhook \"w\" denied the request: no snapshots on Friday")), want: "no snapshots on Friday"},
		"too busy": {err: apierrors.NewTooManyRequestsError("later")},
		"timeout":  {err: apierrors.NewServerTimeout(gr, "create", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			var rejected *rejectedError
			if errors.As(newRejectedError(tc.err), &rejected) != (tc.want != "") {
				t.Fatalf("the error is %v", rejected)
			}
			if tc.want != "" && rejected.reason != tc.want {
				t.Errorf("the reason is %q, want %q", rejected.reason, tc.want)
			}
		})
	}
}
