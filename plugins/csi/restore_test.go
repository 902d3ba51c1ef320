// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// backedUp is a claim in an archive, with its content.
type backedUp struct {
	claim, content *unstructured.Unstructured
}

// backUp captures a claim.
func (w *world) backUp(claim *unstructured.Unstructured) backedUp {
	w.Helper()
	started := w.capture(claim)
	w.awaitProgress(started, "the snapshot is ready", isCompleted)
	return backedUp{claim: started.Item, content: w.archivedContent(started)}
}

// startRestore calls the actions in the order of the operator, for a Restore into a namespace, and returns the claim to
// create.
func (w *world) startRestore(b backedUp, namespace string) (*asyncrestoreitemv1.Started, error) {
	w.Helper()
	w.restore.NamespaceMapping = map[string]string{b.claim.GetNamespace(): namespace}
	started, err := restoreClaim{w.cluster}.Start(w.Context(), &item.RestoreRequest{
		Item: b.claim.DeepCopy(), ItemFromBackup: b.claim, Restore: w.restore,
	})
	if err != nil || started == nil {
		return started, err
	}
	for _, ref := range started.AdditionalItems {
		if b.content == nil || ref.Name != b.content.GetName() || ref.Resource != "volumesnapshotcontents" {
			continue
		}
		resp, err := restoreContent{w.cluster}.Execute(w.Context(), &item.RestoreRequest{Item: b.content.DeepCopy(), ItemFromBackup: b.content, Restore: w.restore})
		if err == nil && !resp.SkipRestore {
			w.Error("the content is restored as it is")
		}
		if err != nil {
			return started, err
		}
	}
	return started, nil
}

// createRestored creates the claim of a Restore as the operator does.
func (w *world) createRestored(started *asyncrestoreitemv1.Started, namespace string) {
	w.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	w.must(fromUnstructured(started.Item, claim))
	claim.ObjectMeta = metav1.ObjectMeta{Name: claim.Name, Namespace: namespace, Annotations: claim.Annotations, Labels: claim.Labels}
	claim.Status = corev1.PersistentVolumeClaimStatus{}
	_, err := w.core.CoreV1().PersistentVolumeClaims(namespace).Create(w.Context(), claim, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) restoreProgress(started *asyncrestoreitemv1.Started) *item.Progress {
	w.Helper()
	progress, err := restoreClaim{w.cluster}.Progress(w.Context(), &asyncrestoreitemv1.OperationRequest{OperationID: started.OperationID, Restore: w.restore})
	w.must(err)
	return progress
}

// age makes the plugin behave as if it had observed an operation for long.
func (w *world) age(started *asyncrestoreitemv1.Started) {
	w.Helper()
	w.restoreProgress(started)
	backdate(&w.restoring, started.OperationID, time.Hour)
}

func (w *world) awaitRestored(started *asyncrestoreitemv1.Started, what string, check func(*item.Progress) bool) *item.Progress {
	w.Helper()
	var progress *item.Progress
	w.eventually(what, func() bool {
		progress = w.restoreProgress(started)
		if progress.Completed && !check(progress) {
			w.Fatalf("waiting until %s: %+v", what, progress)
		}
		return check(progress)
	})
	return progress
}

// wantNoLeftovers waits until a Restore has no objects anymore.
func (w *world) wantNoLeftovers(started *asyncrestoreitemv1.Started) {
	w.Helper()
	id := mustParseID(w.T, started.OperationID)
	w.eventually("nothing is left of the restore", func() bool {
		snapshot, err := w.readSnapshot(w.Context(), id.object, id.uid)
		w.must(err)
		content, err := w.snapshotContents.get(w.Context(), id.object.Name)
		w.must(err)
		return snapshot == nil && content == nil
	})
}

// TestRestoreClaim_MappedNamespace restores a claim beside the original, with the data of the backup.
func TestRestoreClaim_MappedNamespace(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	b := w.backUp(claim)
	w.must(os.WriteFile(w.dataPath(w.awaitBound(w.namespace, "data")), []byte("later"), 0o600))
	target := w.createNamespace()
	started, err := w.startRestore(b, target)
	w.must(err)
	w.createRestored(started, target)
	w.restartPlugin()
	w.awaitRestored(started, "the claim is restored", isCompleted)
	w.wantNoLeftovers(started)
	restored := w.awaitBound(target, "data")
	if data, err := os.ReadFile(w.dataPath(restored)); err != nil || string(data) != "data" {
		t.Errorf("the restored volume has %q, %v; want that of the backup", data, err)
	}
	if restored.Annotations[annotationSnapshot] != "" {
		t.Errorf("the restored claim has the annotations %v", restored.Annotations)
	}
	if n := w.driverSnapshots(w.handleOfItem(claim)); n != 1 {
		t.Errorf("the driver has %d snapshots, want the one of the backup", n)
	}
	if p := w.restoreProgress(started); !isCompleted(p) {
		t.Errorf("the progress is no longer final: %+v", p)
	}
	// The restored claim can be backed up and restored again.
	again := toItem(w, restored, "v1", "PersistentVolumeClaim")
	second := *w
	second.backup.UID, second.restore.UID = "4d7c7e3e-0000-4000-8000-0000000000b2", "4d7c7e3e-0000-4000-8000-0000000000c2"
	b2, third := second.backUp(again), w.createNamespace()
	started, err = second.startRestore(b2, third)
	w.must(err)
	second.createRestored(started, third)
	second.awaitRestored(started, "the claim is restored again", isCompleted)
}

// TestRestoreClaim_NamespaceDeleted restores into the same namespace after it was deleted with its volumes.
func TestRestoreClaim_NamespaceDeleted(t *testing.T) {
	w := newWorld(t)
	b := w.backUp(w.createVolume("data"))
	w.must(w.core.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}))
	w.eventually("the namespace no longer exists", func() bool {
		_, err := w.core.CoreV1().Namespaces().Get(t.Context(), w.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	_, err := w.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	w.must(err)
	started, err := w.startRestore(b, w.namespace)
	w.must(err)
	for _, name := range []csi.Program{csi.SnapshotController, csi.Snapshotter, csi.Provisioner} {
		w.must(stack.KillProgram(name))
	}
	w.createRestored(started, w.namespace)
	w.awaitRestored(started, "the claim is restored", isCompleted)
	if data, err := os.ReadFile(w.dataPath(w.awaitBound(w.namespace, "data"))); err != nil || string(data) != "data" {
		t.Errorf("the restored volume has %q, %v", data, err)
	}
}

// TestRestoreClaim_Gone restores from a snapshot that the driver has lost.
func TestRestoreClaim_Gone(t *testing.T) {
	w := newWorld(t)
	b := w.backUp(w.createVolume("data"))
	w.must(driverdir.Remove[driverdir.Snapshot](stack.Dir(), mustString(b.content, "status", "snapshotHandle")))
	target := w.createNamespace()
	started, err := w.startRestore(b, target)
	w.must(err)
	w.createRestored(started, target)
	failed := w.awaitRestored(started, "it has failed", isFailed)
	wantContains(t, "the error", failed.Err, "does not have the snapshot anymore")
	wantContains(t, "the error", failed.Err, "restore it from another backup")
	w.must(w.core.CoreV1().PersistentVolumeClaims(target).Delete(t.Context(), "data", metav1.DeleteOptions{}))
	w.wantNoLeftovers(started)
}

// TestRestoreClaim_NotCreated ends operations whose claim existed before, or was not created.
func TestRestoreClaim_NotCreated(t *testing.T) {
	w := newWorld(t)
	b := w.backUp(w.createVolume("data"))
	for name, tc := range map[string]struct{ namespace, want string }{
		"exists":  {namespace: w.namespace, want: "existed before"},
		"missing": {namespace: w.createNamespace(), want: "was not created"},
	} {
		t.Run(name, func(t *testing.T) {
			started, err := w.startRestore(b, tc.namespace)
			w.must(err)
			if p := w.restoreProgress(started); p.Completed {
				t.Errorf("it has ended too early: %+v", p)
			}
			w.age(started)
			wantContains(t, "the error", w.awaitRestored(started, "it has failed", isFailed).Err, tc.want)
			w.wantNoLeftovers(started)
		})
	}
}

// TestRestoreClaim_FirstConsumer does not wait forever for a pod, and removes the leftovers when there was one.
func TestRestoreClaim_FirstConsumer(t *testing.T) {
	w := newWorld(t)
	b := w.backUp(w.createVolume("data"))
	w.must(unstructured.SetNestedField(b.claim.Object, csi.WaitClassName, "spec", "storageClassName"))
	target := w.createNamespace()
	started, err := w.startRestore(b, target)
	w.must(err)
	w.createRestored(started, target)
	w.awaitRestored(started, "it waits for a pod", func(p *item.Progress) bool { return strings.Contains(p.Description, "waiting for a pod") })
	w.age(started)
	completed := w.awaitRestored(started, "it does not wait longer", isCompleted)
	wantContains(t, "the description", completed.Description, "when a pod uses the claim")
	w.must(w.removeLeftovers(t.Context()))
	if n := len(w.listOwnSnapshots(target)); n != 1 {
		t.Fatalf("there are %d VolumeSnapshots, want the one that the claim needs", n)
	}
	// What the scheduler does for the first pod.
	claim, err := w.core.CoreV1().PersistentVolumeClaims(target).Get(t.Context(), "data", metav1.GetOptions{})
	w.must(err)
	claim.Annotations = mergeMaps(claim.Annotations, map[string]string{annotationSelectedNode: "node-1"})
	_, err = w.core.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.core.CoreV1().PersistentVolumeClaims(target).Update(t.Context(), claim, metav1.UpdateOptions{})
	w.must(err)
	if data, err := os.ReadFile(w.dataPath(w.awaitBound(target, "data"))); err != nil || string(data) != "data" {
		t.Errorf("the restored volume has %q, %v", data, err)
	}
	w.restartPlugin()
	w.must(w.removeLeftovers(t.Context()))
	w.wantNoLeftovers(started)
}

// TestRemoveLeftovers_Orphan removes the VolumeSnapshot of a Restore whose claim never appeared, but not early.
func TestRemoveLeftovers_Orphan(t *testing.T) {
	w := newWorld(t)
	started, err := w.startRestore(w.backUp(w.createVolume("data")), w.createNamespace())
	w.must(err)
	w.must(w.removeLeftovers(t.Context()))
	if snapshot, err := w.readSnapshot(t.Context(), mustParseID(t, started.OperationID).object, mustParseID(t, started.OperationID).uid); err != nil || !isPresent(snapshot) {
		t.Fatalf("it was removed early: %v", err)
	}
	backdate(&w.orphans, string(mustParseID(t, started.OperationID).uid), orphanTimeout)
	w.must(w.removeLeftovers(t.Context()))
	w.wantNoLeftovers(started)
	if n := len(w.listOwnSnapshots(w.namespace)); n != 1 {
		t.Errorf("there are %d VolumeSnapshots of the backup, want one", n)
	}
}

// TestRestoreClaim_Clock restores if the clock of the plugin is wrong, also if it was corrected meanwhile: what a claim needs is
// not removed, and what prevents the restore is reported.
func TestRestoreClaim_Clock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"ahead": 2 * time.Hour, "behind": -2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.skewPlugin(ahead)
			b, target := w.backUp(w.createVolume("data")), w.createNamespace()
			started, err := w.startRestore(b, target)
			w.must(err)
			id := mustParseID(t, started.OperationID)
			id.started = id.started.Add(-ahead)
			started.OperationID = id.String()
			w.must(w.removeLeftovers(t.Context()))
			if p := w.restoreProgress(started); p.Completed || p.Description != "waiting for the claim to be created" {
				t.Errorf("the progress is %+v", p)
			}
			w.setFaults(driverdir.Faults{Calls: map[string]driverdir.Fault{"CreateVolume": {Code: codes.Unavailable}}})
			w.createRestored(started, target)
			backdate(&w.restoring, started.OperationID, eventsAfter)
			w.awaitRestored(started, "the error is shown", func(p *item.Progress) bool { return strings.Contains(p.Description, "not provisioned yet") })
			w.setFaults(driverdir.Faults{})
			w.awaitRestored(started, "the claim is restored", isCompleted)
			w.wantData(w.awaitBound(target, "data"), "data")
			w.wantNoLeftovers(started)
		})
	}
}

// TestRestoreClaim_Cancel cancels, with a Start in between that takes over.
func TestRestoreClaim_Cancel(t *testing.T) {
	w := newWorld(t)
	b, target := w.backUp(w.createVolume("data")), w.createNamespace()
	earlier, err := w.startRestore(b, target)
	w.must(err)
	later, err := w.startRestore(b, target)
	w.must(err)
	cancel := func(started *asyncrestoreitemv1.Started) {
		w.must(restoreClaim{w.cluster}.Cancel(t.Context(), &asyncrestoreitemv1.OperationRequest{OperationID: started.OperationID, Restore: w.restore}))
	}
	if p := w.restoreProgress(earlier); p.Completed {
		t.Errorf("the earlier operation ends before it is canceled: %+v", p)
	}
	cancel(earlier)
	if p := w.restoreProgress(earlier); !p.Cancelled || !p.Completed {
		t.Errorf("the earlier operation: %+v", p)
	}
	if p := w.restoreProgress(later); p.Completed {
		t.Errorf("the later operation: %+v", p)
	}
	cancel(later)
	cancel(later)
	w.wantNoLeftovers(later)
	if n := w.driverSnapshots(w.handleOfItem(b.claim)); n != 1 {
		t.Errorf("the driver has %d snapshots, want the one of the backup", n)
	}
}

// TestRestoreClaim_Archive restores from archives that are damaged or were changed.
func TestRestoreClaim_Archive(t *testing.T) {
	w := newWorld(t)
	b := w.backUp(w.createVolume("data"))
	for name, tc := range map[string]struct {
		edit       func(b *backedUp)
		want       string
		wantFailed string
	}{
		"no annotation":         {edit: func(b *backedUp) { b.claim.SetAnnotations(nil) }},
		"annotation is no JSON": {edit: func(b *backedUp) { b.claim.SetAnnotations(map[string]string{annotationSnapshot: "{"}) }, want: "cannot be read"},
		"annotation is long": {edit: func(b *backedUp) {
			b.claim.SetAnnotations(map[string]string{annotationSnapshot: strings.Repeat(" ", 1<<20)})
		}, want: "more than"},
		"another driver": {edit: func(b *backedUp) {
			w.must(unstructured.SetNestedField(b.content.Object, "other.example.org", "spec", "driver"))
		}, want: "it is of the CSI driver other.example.org"},
		"no handle": {edit: func(b *backedUp) { unstructured.RemoveNestedField(b.content.Object, "status") }, want: "no handle"},
		"handle is long": {edit: func(b *backedUp) {
			w.must(unstructured.SetNestedField(b.content.Object, strings.Repeat("x", 1<<20), "status", "snapshotHandle"))
		}, want: "too long"},
		"class of another driver": {edit: func(b *backedUp) {
			value, err := json.Marshal(snapshotRef{Driver: "other.example.org", Content: b.content.GetName()})
			w.must(err)
			b.claim.SetAnnotations(map[string]string{annotationSnapshot: string(value)})
		}, want: "its StorageClass " + csi.ClassName + " is of the CSI driver " + csi.DriverName},
		"content is missing": {edit: func(b *backedUp) { b.content = nil }, wantFailed: "include them"},
		"namespace of others": {edit: func(b *backedUp) {
			w.must(unstructured.SetNestedField(b.content.Object, "kube-system", "spec", "volumeSnapshotRef", "namespace"))
		}, wantFailed: "include them"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := backedUp{claim: b.claim.DeepCopy(), content: b.content.DeepCopy()}
			tc.edit(&changed)
			target := w.createNamespace()
			started, err := w.startRestore(changed, target)
			switch {
			case tc.want != "":
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("the error is %v, want %q", err, tc.want)
				}
			case err != nil:
				t.Error(err)
			case tc.wantFailed != "":
				w.createRestored(started, target)
				w.age(started)
				wantContains(t, "the error", w.awaitRestored(started, "it has failed", isFailed).Err, tc.wantFailed)
			case started != nil:
				t.Errorf("it was started: %+v", started)
			}
		})
	}
	contents, err := w.snapshots.SnapshotV1().VolumeSnapshotContents().List(t.Context(), metav1.ListOptions{LabelSelector: labelRunUID + "=" + w.restore.UID})
	if err != nil || len(contents.Items) > 0 {
		t.Errorf("there are %d contents, %v", len(contents.Items), err)
	}
}

func TestNewRestoredClaim(t *testing.T) {
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": map[string]any{"name": "data", "namespace": "shop", "annotations": map[string]any{
			"pv.kubernetes.io/bind-completed": "yes", annotationSelectedNode: "node-1", annotationSnapshot: "{}", "keep": "me",
		}},
		"spec": map[string]any{
			"volumeName": "pvc-1", "storageClassName": "", "dataSource": map[string]any{"name": "old"}, "selector": map[string]any{},
			"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
		},
		"status": map[string]any{"capacity": map[string]any{"storage": "2Gi"}},
	}}
	restored, err := newRestoredClaim(&item.RestoreRequest{Item: claim.DeepCopy(), ItemFromBackup: claim}, "grapnel-1", "fast")
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.PersistentVolumeClaim
	if err := fromUnstructured(restored, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Annotations) != 1 || got.Spec.VolumeName != "" || got.Spec.DataSource != nil || got.Spec.Selector != nil || *got.Spec.StorageClassName != "fast" {
		t.Errorf("the claim is %+v", got)
	}
	if source := got.Spec.DataSourceRef; source.Kind != "VolumeSnapshot" || *source.APIGroup != snapshotv1.GroupName || source.Name != "grapnel-1" {
		t.Errorf("the source is %+v", source)
	}
	if size := got.Spec.Resources.Requests[corev1.ResourceStorage]; size.Cmp(resource.MustParse("2Gi")) != 0 {
		t.Errorf("the size is %s, want that of the volume", size.String())
	}
}
