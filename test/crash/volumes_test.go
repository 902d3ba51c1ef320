// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

// TestVolumes hits runs about claims whose data is captured in CSI snapshots. Each is part of a story of its
// own: a Backup with a freeze and a thaw, the end of the namespace, a Restore into another one, and a DeletionRun.
func TestVolumes(t *testing.T) {
	s := newVolumeSite(t)
	var lanes sync.WaitGroup // all at once, because they mostly wait
	defer lanes.Wait()
	for _, scene := range volumeScenarios() {
		lanes.Go(func() {
			t.Run(scene.name, func(t *testing.T) {
				l := s.newTestOperator(t, scene)
				want, recorded := scene.record(t, l)
				for n, sw := range scene.chosenSweeps() {
					t.Run(fmt.Sprint(sw), func(t *testing.T) { sw.run(t, l, scene, n, want, recorded) })
				}
			})
		})
	}
}

// volumeScenarios returns the scenarios of TestVolumes.
func volumeScenarios() []scenario {
	// steps are the writes that tell how far a run and its operations and hooks are.
	steps := regexp.MustCompile(`/(asyncoperations|hookruns|backups|restores|deletionruns|persistentvolumeclaims)\b`)
	// states are those that other programs than the operator are hit at.
	states := regexp.MustCompile(`/(asyncoperations|hookruns|backups|restores|deletionruns)/[^/]+/status`)
	newScenario := func(name string, w work, sweeps ...sweep) scenario {
		pre := "outputs"
		if w.kind().HasSingleHookPoint() {
			pre = "none"
		}
		return scenario{
			name: name, work: w, pre: pre, post: "outputs", phase: v1alpha1.RunPhaseCompleted,
			prepare: nothing, sampled: true, sweeps: sweeps,
		}
	}
	// everywhere hits a run at its steps and at the writes of the plugin.
	everywhere := func(h how, w when, steps *regexp.Regexp) []sweep {
		return []sweep{{how: h, when: w, target: api, only: steps}, {how: h, when: w, target: plugin}}
	}
	others := slices.Concat(everywhere(pluginKilled, after, states), everywhere(snapshotterKilled, after, states),
		[]sweep{{how: controllerKilled, when: after, target: plugin}})
	return []scenario{
		newScenario("captured", captures{}, append(everywhere(killed, before, steps), sweep{how: killed, when: after, target: plugin})...),
		newScenario("snapped", captures{}, append(others, sweep{how: controllerKilled, when: after, target: api, only: states})...),
		newScenario("ceased", captures{}, everywhere(canceled, after, steps)...),
		newScenario("withdrawn", captures{}, everywhere(deleted, after, steps)...),
		newScenario("recovered", recoveries{}, everywhere(killed, after, steps)...),
		newScenario("regained", recoveries{}, others...),
		newScenario("erased", erasures{}, slices.Concat(everywhere(killed, after, steps), others)...),
	}
}

// claimNames are the names of the claims of a run. The data of each is its name.
func claimNames() []string { return []string{"first", "second"} }

// Namespaces of a run: what it backs up, and what that is restored into.
func claimsOf(name string) string   { return name + "-claims" }
func restoredOf(name string) string { return name + "-restored" }

// captures back up the claims of a namespace.
type captures struct{}

func (captures) kind() lifecycle.KindTraits { return lifecycle.BackupKind }

func (captures) setUp(*testing.T, *testOperator) {}

func (captures) directory(name string) string { return "backups/" + name }

func (captures) begin(t *testing.T, l *testOperator, name string) lifecycle.Object {
	t.Helper()
	l.createClaims(t, claimsOf(name))
	return l.newClaimsBackup(name)
}

// left ends the story of the backup: if it can be restored, it is restored and deleted. Otherwise, nothing is left.
func (captures) left(t *testing.T, l *testOperator, o lifecycle.Object, _ int) map[string]string {
	t.Helper()
	if !lifecycle.IsCompletedOrPartiallyFailed(o) {
		l.checkNoSnapshots(t, o.GetName(), o.GetUID())
		return nil
	}
	isCompleted := o.GetPhase() == v1alpha1.RunPhaseCompleted
	if isCompleted && !conditions.IsTrue(o, v1alpha1.ConditionDataCaptured) {
		t.Errorf("the data is not captured: %+v", conditions.Get(o, v1alpha1.ConditionDataCaptured))
	}
	found := map[string]string{"snapshots": fmt.Sprint(len(l.driverSnapshots(t)))}
	l.deleteNamespace(t, claimsOf(o.GetName()))
	switch err := l.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); {
	case apierrors.IsNotFound(err): // deleted when it was complete
	case err != nil:
		t.Error(err)
	case isCompleted:
		l.checkFrozen(t, o)
		l.complete(t, l.newClaimsRestore(o.GetName()))
		found["data"] = l.restoredData(t, o.GetName())
	}
	l.complete(t, l.newClaimsDeletion(o.GetName()))
	l.checkNoSnapshots(t, o.GetName(), o.GetUID())
	return found
}

// recoveries restore the claims of a namespace that no longer exists into another one.
type recoveries struct{}

func (recoveries) kind() lifecycle.KindTraits { return lifecycle.RestoreKind }

func (recoveries) setUp(*testing.T, *testOperator) {}

func (recoveries) directory(name string) string { return "restores/" + name }

func (recoveries) begin(t *testing.T, l *testOperator, name string) lifecycle.Object {
	t.Helper()
	l.createClaims(t, claimsOf(name))
	l.complete(t, l.newClaimsBackup(name))
	l.deleteNamespace(t, claimsOf(name))
	return l.newClaimsRestore(name)
}

func (recoveries) left(t *testing.T, l *testOperator, o lifecycle.Object, _ int) map[string]string {
	t.Helper()
	found := map[string]string{"snapshots": fmt.Sprint(len(l.driverSnapshots(t)))}
	if o.GetPhase() == v1alpha1.RunPhaseCompleted {
		found["data"] = l.restoredData(t, o.GetName())
		l.checkNoObjects(t, o.GetUID(), restoredOf(o.GetName()))
	}
	l.complete(t, l.newClaimsDeletion(o.GetName()))
	l.checkNoSnapshots(t, o.GetName(), "")
	return found
}

// erasures delete a backup whose namespace no longer exists.
type erasures struct{}

func (erasures) kind() lifecycle.KindTraits { return lifecycle.DeletionRunKind }

func (erasures) setUp(*testing.T, *testOperator) {}

func (erasures) directory(name string) string { return "backups/" + name }

func (erasures) begin(t *testing.T, l *testOperator, name string) lifecycle.Object {
	t.Helper()
	l.createClaims(t, claimsOf(name))
	l.complete(t, l.newClaimsBackup(name))
	l.deleteNamespace(t, claimsOf(name))
	return l.newClaimsDeletion(name)
}

func (erasures) left(t *testing.T, l *testOperator, o lifecycle.Object, _ int) map[string]string {
	t.Helper()
	l.checkNoSnapshots(t, o.GetName(), o.GetUID())
	return nil
}

func (l *testOperator) newClaimsBackup(name string) *v1alpha1.Backup {
	b := &v1alpha1.Backup{ObjectMeta: l.meta(name)}
	b.Spec.IncludedNamespaces = []v1alpha1.NamePattern{v1alpha1.NamePattern(claimsOf(name))}
	// What the cluster puts into each namespace comes at any time.
	b.Spec.ExcludedResources = []v1alpha1.NamePattern{"configmaps", "serviceaccounts", "events", "events.events.k8s.io"}
	return b
}

func (l *testOperator) newClaimsRestore(name string) *v1alpha1.Restore {
	return &v1alpha1.Restore{ObjectMeta: l.meta(name), Spec: v1alpha1.RestoreSpec{
		BackupName:       name,
		NamespaceMapping: map[string]v1alpha1.NamespaceName{claimsOf(name): v1alpha1.NamespaceName(restoredOf(name))},
	}}
}

func (l *testOperator) newClaimsDeletion(name string) *v1alpha1.DeletionRun {
	return &v1alpha1.DeletionRun{ObjectMeta: l.meta(name), Spec: v1alpha1.DeletionRunSpec{BackupName: name}}
}

// complete makes an undisturbed run.
func (l *testOperator) complete(t *testing.T, object lifecycle.Object) {
	t.Helper()
	object.SetLabels(l.labels())
	last, ends := l.follow(t, object, disturbance{api: &trap{}, store: &trap{}})
	if ends > 0 || last.GetPhase() != v1alpha1.RunPhaseCompleted {
		t.Fatalf("undisturbed, %T %s is %s", object, object.GetName(), l.describe(object.GetName(), last))
	}
}

// createClaims creates a namespace with claims that have data.
func (l *testOperator) createClaims(t *testing.T, namespace string) {
	t.Helper()
	for _, object := range read(t, "testdata/claims.yaml", namespace) {
		l.create(t, object)
	}
	l.volumes = nil
	for _, name := range claimNames() {
		volume := l.awaitVolume(t, namespace, name)
		l.volumes = append(l.volumes, volume)
		if err := os.WriteFile(l.dataPath(volume), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitVolume waits until a claim is bound, and returns the ID of its volume in the driver.
func (l *testOperator) awaitVolume(t *testing.T, namespace, name string) string {
	t.Helper()
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	eventually(t, "waiting for the volume of "+namespace+"/"+name, func(ctx context.Context) (bool, error) {
		err := l.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim)
		return claim.Status.Phase == corev1.ClaimBound, err
	})
	if err := l.client.Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		t.Fatal(err)
	}
	return volume.Spec.CSI.VolumeHandle
}

func (l *testOperator) dataPath(volume string) string {
	return filepath.Join(driverdir.DataPath[driverdir.Volume](l.stack.Dir(), volume), "data")
}

// deleteNamespace deletes a namespace, which ends later.
func (l *testOperator) deleteNamespace(t *testing.T, name string) {
	t.Helper()
	if err := l.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

// restoredData returns what is in the restored volumes of a run.
func (l *testOperator) restoredData(t *testing.T, name string) (data string) {
	t.Helper()
	for _, claim := range claimNames() {
		content, err := os.ReadFile(l.dataPath(l.awaitVolume(t, restoredOf(name), claim)))
		if err != nil {
			t.Error(err)
		}
		data += string(content) + "\n"
	}
	return data
}

// driverSnapshots returns the snapshots of the volumes of the current run.
func (l *testOperator) driverSnapshots(t *testing.T) []driverdir.Snapshot {
	t.Helper()
	all, err := driverdir.List[driverdir.Snapshot](l.stack.Dir())
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(s driverdir.Snapshot) bool { return !slices.Contains(l.volumes, s.VolumeID) })
}

// checkFrozen checks that all snapshots of a Backup were taken between its freeze and its thaw.
func (l *testOperator) checkFrozen(t *testing.T, o lifecycle.Object) {
	t.Helper()
	var frozen, thawed *v1alpha1.HookAttempt
	for _, run := range l.hookRuns(t, o) {
		switch attempts := run.Status.Attempts; {
		case run.Spec.ActionName != l.pair() || len(attempts) == 0:
		case run.Spec.Hook == v1alpha1.HookPreBackup:
			frozen = &attempts[len(attempts)-1]
		default:
			thawed = &attempts[0]
		}
	}
	for _, snapshot := range l.driverSnapshots(t) {
		if frozen == nil || thawed == nil || snapshot.Created.Before(frozen.CompletionTimestamp.Time) || snapshot.Created.After(thawed.StartTimestamp.Time) {
			t.Errorf("the snapshot of %s was not taken between freeze and thaw: %+v, %+v", snapshot.Created, frozen, thawed)
		}
	}
}

// checkNoSnapshots checks that the driver has no snapshots of a Backup anymore, and the cluster no objects of them.
func (l *testOperator) checkNoSnapshots(t *testing.T, name string, uid types.UID) {
	t.Helper()
	l.checkNoObjects(t, uid, claimsOf(name))
	if left := l.driverSnapshots(t); len(left) > 0 {
		t.Errorf("the driver still has %+v", left)
	}
}

// checkNoObjects waits until the cluster has no VolumeSnapshots and no contents with the label of a run, or of a namespace.
func (l *testOperator) checkNoObjects(t *testing.T, run types.UID, namespace string) {
	t.Helper()
	var left []string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		left = nil
		for _, kind := range []string{"VolumeSnapshotList", "VolumeSnapshotContentList"} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: kind})
			if err := l.client.List(ctx, list); err != nil {
				return false, err
			}
			for i := range list.Items {
				object := &list.Items[i]
				of, isContent, _ := unstructured.NestedString(object.Object, "spec", "volumeSnapshotRef", "namespace") // it is one
				if !isContent {
					of = object.GetNamespace()
				}
				if object.GetLabels()[v1alpha1.LabelParentUID] == string(run) || of == namespace {
					left = append(left, text(t, object))
				}
			}
		}
		return len(left) == 0, nil
	})
	if err != nil {
		t.Errorf("%v: left are %q", err, left)
	}
}
