// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package csi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

var (
	plane *controlplane.ControlPlane
	stack *csi.Stack
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	plane, stack, err = csi.StartCluster(context.Background(), csi.Options{})
	if err != nil {
		return 1, err
	}
	code = m.Run()
	return code, csi.StopCluster(plane, stack)
}

// world is a namespace of a test.
type world struct {
	client.Client

	t         *testing.T
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "csi-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, name := range []csi.Program{csi.Driver, csi.SnapshotController, csi.Snapshotter, csi.Provisioner} {
			log, err := os.ReadFile(stack.LogPath(name))
			t.Logf("%s, %v:\n%s", name, err, log[max(0, len(log)-3000):])
		}
	})
	return &world{Client: c, t: t, namespace: namespace.Name}
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	object.SetNamespace(w.namespace)
	if err := w.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// eventually waits until a check succeeds.
func (w *world) eventually(what string, check func(context.Context) (bool, error)) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, time.Minute, true, check)
	if err != nil {
		w.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// createClaim creates a claim, of a snapshot if one is named.
func (w *world) createClaim(name, snapshot string) *corev1.PersistentVolumeClaim {
	w.t.Helper()
	class := csi.ClassName
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"group": "all"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if snapshot != "" {
		group := "snapshot.storage.k8s.io"
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: snapshot}
	}
	w.create(claim)
	return claim
}

// awaitVolume waits until a claim is bound, and returns the ID of its volume.
func (w *world) awaitVolume(claim *corev1.PersistentVolumeClaim) string {
	w.t.Helper()
	w.eventually(claim.Name+" is bound", func(ctx context.Context) (bool, error) {
		err := w.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		return claim.Status.Phase == corev1.ClaimBound, err
	})
	volume := &corev1.PersistentVolume{}
	if err := w.Get(w.t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		w.t.Fatal(err)
	}
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != csi.DriverName {
		w.t.Fatalf("the volume of %s is %+v", claim.Name, volume.Spec.PersistentVolumeSource)
	}
	return volume.Spec.CSI.VolumeHandle
}

func (w *world) dataPath(volume string) string {
	return filepath.Join(driverdir.DataPath[driverdir.Volume](stack.Dir(), volume), "data")
}

// createVolume creates a claim with a file, and returns the ID of its volume.
func (w *world) createVolume(name string) string {
	w.t.Helper()
	volume := w.awaitVolume(w.createClaim(name, ""))
	if err := os.WriteFile(w.dataPath(volume), []byte(name), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return volume
}

func newObject(kind, name string, spec map[string]any) *unstructured.Unstructured {
	group := "snapshot.storage.k8s.io/v1"
	if kind == "VolumeGroupSnapshot" {
		group = "groupsnapshot.storage.k8s.io/v1"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func (w *world) createSnapshot(name, claim string) *unstructured.Unstructured {
	w.t.Helper()
	snapshot := newObject("VolumeSnapshot", name, map[string]any{
		"volumeSnapshotClassName": csi.ClassName, "source": map[string]any{"persistentVolumeClaimName": claim},
	})
	w.create(snapshot)
	return snapshot
}

func (w *world) awaitReady(object *unstructured.Unstructured) {
	w.t.Helper()
	w.eventually(object.GetName()+" is ready", func(ctx context.Context) (bool, error) {
		err := w.Get(ctx, client.ObjectKeyFromObject(object), object)
		ready, _, _ := unstructured.NestedBool(object.Object, "status", "readyToUse")
		return ready, err
	})
}

// awaitRecords waits until the driver has as many records of a kind that match.
func awaitRecords[R driverdir.Record](w *world, want int, matches func(R) bool) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("the driver has %d records %T", want, *new(R)), func(context.Context) (bool, error) {
		records, err := driverdir.List[R](stack.Dir())
		found := 0
		for _, record := range records {
			if matches(record) {
				found++
			}
		}
		return found == want, err
	})
}

// TestSnapshot: a claim is bound to a volume of the driver; a snapshot of it becomes ready; a claim of the
// snapshot has its data; and all is deleted in the driver with its objects.
func TestSnapshot(t *testing.T) {
	w := newWorld(t)
	source := w.createVolume("source")
	snapshot := w.createSnapshot("snapshot", "source")
	w.awaitReady(snapshot)
	if err := os.WriteFile(w.dataPath(source), []byte("later"), 0o600); err != nil {
		t.Fatal(err)
	}
	restored := w.awaitVolume(w.createClaim("restored", "snapshot"))
	if content, err := os.ReadFile(w.dataPath(restored)); err != nil || string(content) != "source" {
		t.Errorf("the restored volume has %q, %v; want source", content, err)
	}
	ofSource := func(s driverdir.Snapshot) bool { return s.VolumeID == source }
	awaitRecords(w, 1, ofSource)
	if err := w.Delete(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	awaitRecords(w, 0, ofSource)
	if err := w.DeleteAllOf(t.Context(), &corev1.PersistentVolumeClaim{}, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	awaitRecords(w, 0, func(v driverdir.Volume) bool { return v.ID == source || v.ID == restored })
}

// TestGroupSnapshot: a group of two claims becomes ready with a snapshot of each, and is deleted.
func TestGroupSnapshot(t *testing.T) {
	w := newWorld(t)
	a, b := w.createVolume("a"), w.createVolume("b")
	group := newObject("VolumeGroupSnapshot", "both", map[string]any{
		"volumeGroupSnapshotClassName": csi.ClassName,
		"source":                       map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"group": "all"}}},
	})
	w.create(group)
	w.awaitReady(group)
	ofBoth := func(s driverdir.Snapshot) bool { return s.GroupID != "" && (s.VolumeID == a || s.VolumeID == b) }
	awaitRecords(w, 2, ofBoth)

	members := &unstructured.UnstructuredList{}
	members.SetAPIVersion("snapshot.storage.k8s.io/v1")
	members.SetKind("VolumeSnapshotList")
	if err := w.List(t.Context(), members, client.InNamespace(w.namespace)); err != nil || len(members.Items) != 2 {
		t.Fatalf("the members are %v, %v", members.Items, err)
	}
	contents := map[string]bool{}
	for i, member := range members.Items {
		w.awaitReady(&member)
		restored := w.awaitVolume(w.createClaim(fmt.Sprint("restored-", i), member.GetName()))
		content, err := os.ReadFile(w.dataPath(restored))
		if err != nil {
			t.Fatal(err)
		}
		contents[string(content)] = true
	}
	if !contents["a"] || !contents["b"] {
		t.Errorf("the restored volumes have %v", contents)
	}
	if err := w.Delete(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	awaitRecords(w, 0, ofBoth)
}

// TestFaults: a snapshot is not ready while the driver says so, even if each program is killed meanwhile, and
// becomes ready then.
func TestFaults(t *testing.T) {
	w := newWorld(t)
	volume := w.createVolume("source")
	setFaults := func(faults driverdir.Faults) {
		t.Helper()
		if err := stack.Dir().SetFaults(faults); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { setFaults(driverdir.Faults{}) })
	callsBefore, err := stack.Dir().LoadCalls("CreateSnapshot")
	if err != nil {
		t.Fatal(err)
	}
	awaitFailures := func(code codes.Code, want int) {
		t.Helper()
		w.eventually("calls fail with "+code.String(), func(context.Context) (bool, error) {
			calls, err := stack.Dir().LoadCalls("CreateSnapshot")
			failed := 0
			for _, call := range calls[len(callsBefore):] {
				if call.Code == code.String() {
					failed++
				}
			}
			return failed >= want, err
		})
	}

	lostAnswer := map[string]driverdir.Fault{"CreateSnapshot": {Code: codes.Unavailable, AfterWork: true}}
	setFaults(driverdir.Faults{NeverReady: true, Calls: lostAnswer})
	snapshot := w.createSnapshot("snapshot", "source")
	awaitFailures(codes.Unavailable, 2)
	setFaults(driverdir.Faults{NeverReady: true})
	for _, name := range []csi.Program{csi.Driver, csi.SnapshotController, csi.Snapshotter, csi.Provisioner} {
		if err := stack.KillProgram(name); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("the snapshot is recorded", func(ctx context.Context) (bool, error) {
		err := w.Get(ctx, client.ObjectKeyFromObject(snapshot), snapshot)
		_, created, _ := unstructured.NestedString(snapshot.Object, "status", "creationTime")
		return created, err
	})
	if ready, _, _ := unstructured.NestedBool(snapshot.Object, "status", "readyToUse"); ready {
		t.Error("the snapshot is ready")
	}
	setFaults(driverdir.Faults{})
	w.awaitReady(snapshot)
	awaitRecords(w, 1, func(s driverdir.Snapshot) bool { return s.VolumeID == volume })
}

// TestStartDriver: with other options, the driver still has its volumes, and a stopped sidecar does nothing
// until it is started.
func TestStartDriver(t *testing.T) {
	w := newWorld(t)
	w.createVolume("source")
	restart := func(opts csi.Options) {
		t.Helper()
		err := stack.StopProgram(csi.Driver)
		if err == nil {
			err = stack.StartDriver(t.Context(), opts)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(stack.StopProgram(csi.Driver), stack.StartDriver(context.Background(), csi.Options{})); err != nil {
			t.Error(err)
		}
	})
	const delay = 2 * time.Second
	restart(csi.Options{ReadyDelay: delay})
	if err := stack.StopProgram(csi.Snapshotter); err != nil {
		t.Fatal(err)
	}
	before, err := stack.Dir().LoadCalls("CreateSnapshot")
	if err != nil {
		t.Fatal(err)
	}
	snapshot := w.createSnapshot("snapshot", "source")
	w.eventually("snapshot-controller has bound a content", func(ctx context.Context) (bool, error) {
		err := w.Get(ctx, client.ObjectKeyFromObject(snapshot), snapshot)
		content, _, _ := unstructured.NestedString(snapshot.Object, "status", "boundVolumeSnapshotContentName")
		return content != "", err
	})
	if calls, err := stack.Dir().LoadCalls("CreateSnapshot"); err != nil || len(calls) != len(before) {
		t.Errorf("without csi-snapshotter there are calls: %v, %v", calls, err)
	}
	if err := stack.StartSidecar(csi.Snapshotter); err != nil {
		t.Fatal(err)
	}
	w.awaitReady(snapshot)
	calls, err := stack.Dir().LoadCalls("CreateSnapshot")
	if err != nil || len(calls) == len(before) {
		t.Fatalf("there are no calls: %v", err)
	}
	if took := time.Since(calls[len(before)].Begin); took < delay {
		t.Errorf("it was ready after %s, want %s or more", took, delay)
	}
}
