// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/load"
)

const (
	// snapshotDelay is how long the driver takes for one snapshot.
	snapshotDelay = 100 * time.Millisecond
	// captureTarget is how much longer than the driver a Backup may take to capture its claims.
	captureTarget = 1.2
	// captureGrowthTarget is how many MiB up to 5,000 claims may add to the memory.
	captureGrowthTarget = 40
	// freezeTarget is for how many seconds an application may be frozen, besides the time of the driver.
	freezeTarget = 1

	snapshotPlugin       = "csi"
	snapshotFreezePlugin = "bench-freeze"
	snapshotFreezeAction = "bench.example.io/freeze"
	snapshotNamespace    = "bench-snapshots"
	frozenNamespace      = "bench-frozen"
)

// snapshots is how many claims are captured by one Backup, how many snapshots the driver takes at the
// same time, and how often the freeze of one claim is measured.
type snapshots struct{ claims, parallelism, rounds int }

// capturing is what it takes to capture claims.
type capturing struct {
	snapshots
	// captured and ready are the seconds from the start of the archive until the data of all claims was
	// captured, and until all operations had ended; the limits are those of snapshots without a Backup.
	captured, ready, limit float64
	// growth is by how many bytes the peak of the operator's resident memory meanwhile was above
	// that during a Backup of the same objects that captured nothing.
	growth float64
	// frozen are the seconds of each freeze, and single that of a snapshot without a Backup.
	frozen, single float64
}

// measureSnapshots captures claims of a driver with its real sidecars.
func (s snapshots) measureSnapshots(ctx context.Context, e *environment) (c capturing, err error) {
	c.snapshots = s
	crds, err := csi.FindCRDs(ctx)
	if err != nil {
		return c, err
	}
	err = e.replacePlane(ctx, func(o *controlplane.Options) {
		o.CRDPaths, o.ControllerManager = append(o.CRDPaths, crds), true
	})
	if err != nil {
		return c, err
	}
	stack, err := csi.Start(ctx, e.plane, csi.Options{SnapshotDelay: snapshotDelay, MaxConcurrent: s.parallelism})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, stack.Stop()) }()
	e.note("Creating %d claims", s.claims+1)
	for namespace, count := range map[string]int{snapshotNamespace: s.claims, frozenNamespace: 1} {
		if err := createClaims(ctx, e, namespace, count); err != nil {
			return c, err
		}
	}
	if c.limit, err = measureSnapshotLimit(ctx, e, stack, snapshotNamespace, s.claims); err != nil {
		return c, err
	}
	e.note("%d snapshots take %.1f s without a Backup", s.claims, c.limit)
	for range s.rounds {
		took, err := measureSnapshotLimit(ctx, e, stack, frozenNamespace, 1)
		if err != nil {
			return c, err
		}
		c.single += took / float64(s.rounds)
	}
	for _, plugin := range []string{"plugins/csi", "test/faultplugin"} {
		if err := e.installPlugin(ctx, plugin); err != nil {
			return c, err
		}
	}
	return c, e.withOperator(ctx, func(op *operator.Operator) error { return c.measureBackups(ctx, e, op) })
}

// createClaims creates a namespace with claims, and waits until they are bound.
func createClaims(ctx context.Context, e *environment, namespace string, count int) error {
	if err := createNamespaces(ctx, e, namespace); err != nil {
		return err
	}
	class := csi.ClassName
	err := load.Create(ctx, e.plane.Config(), 0, count, loadWorkers, func(i int) client.Object {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("data-%04d", i)},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
	})
	if err != nil {
		return err
	}
	return pollUntil(ctx, "the claims are bound", count, func(ctx context.Context) (bool, error) {
		var list corev1.PersistentVolumeClaimList
		err := e.client.List(ctx, &list, client.InNamespace(namespace))
		isPending := func(c corev1.PersistentVolumeClaim) bool { return c.Status.Phase != corev1.ClaimBound }
		return !slices.ContainsFunc(list.Items, isPending), err
	})
}

// measureSnapshotLimit returns for how many seconds the driver and its sidecars are busy with a snapshot of
// each claim, and removes the snapshots.
func measureSnapshotLimit(ctx context.Context, e *environment, stack *csi.Stack, namespace string, count int) (float64, error) {
	kind := schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}
	begun := time.Now()
	err := load.Create(ctx, e.plane.Config(), 0, count, loadWorkers, func(i int) client.Object {
		name := fmt.Sprintf("data-%04d", i)
		snapshot := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"volumeSnapshotClassName": csi.ClassName, "source": map[string]any{"persistentVolumeClaimName": name},
		}}}
		snapshot.SetGroupVersionKind(kind)
		snapshot.SetNamespace(namespace)
		snapshot.SetName(name)
		return snapshot
	})
	if err != nil {
		return 0, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind("VolumeSnapshotList"))
	err = pollUntil(ctx, "the snapshots are ready", count, func(ctx context.Context) (bool, error) {
		err := e.client.List(ctx, list, client.InNamespace(namespace))
		isReady := func(s unstructured.Unstructured) bool {
			ready, _, _ := unstructured.NestedBool(s.Object, "status", "readyToUse")
			return ready
		}
		return len(list.Items) == count && !slices.ContainsFunc(list.Items, func(s unstructured.Unstructured) bool { return !isReady(s) }), err
	})
	took := time.Since(begun).Seconds()
	for i := range list.Items {
		err = errors.Join(err, e.client.Delete(ctx, &list.Items[i]))
	}
	if err != nil {
		return 0, err
	}
	return took, pollUntil(ctx, "the snapshots are deleted", count, func(ctx context.Context) (bool, error) {
		left, err := driverdir.List[driverdir.Snapshot](stack.Dir())
		return len(left)+len(list.Items) == 0, errors.Join(err, e.client.List(ctx, list, client.InNamespace(namespace)))
	})
}

// measureBackups creates the Plugins and measures Backups with them.
func (c *capturing) measureBackups(ctx context.Context, e *environment, op *operator.Operator) (err error) {
	if err := e.awaitAtWork(ctx); err != nil {
		return err
	}
	plain, err := peakDuring(op, func() error {
		_, err := backUpClaims(ctx, e, "objects", snapshotNamespace)
		return err
	})
	if err != nil {
		return err
	}
	for _, plugin := range snapshotPlugins(e) {
		if err := e.client.Create(ctx, plugin); err != nil {
			return fmt.Errorf("creating the Plugin %s: %w", plugin.Name, err)
		}
		if err := waitForPlugin(ctx, e.client, plugin.Name); err != nil {
			return err
		}
	}
	peak, err := peakDuring(op, func() error { return c.measureCapture(ctx, e) })
	if err != nil {
		return err
	}
	c.growth = peak - plain
	e.note("The operator takes %.0f MiB, and %.0f MiB without captured claims", peak/mebibyte, plain/mebibyte)
	return c.measureFreezes(ctx, e)
}

// measureCapture captures all claims with one Backup.
func (c *capturing) measureCapture(ctx context.Context, e *environment) error {
	b, err := backUpClaims(ctx, e, "snapshots", snapshotNamespace)
	if err != nil {
		return err
	}
	var list v1alpha1.AsyncOperationList
	if err := e.client.List(ctx, &list, client.InNamespace(b.Namespace), client.MatchingLabels{v1alpha1.LabelParentUID: string(b.UID)}); err != nil {
		return fmt.Errorf("listing the AsyncOperations: %w", err)
	}
	begun := stageStart(b, v1alpha1.ReasonArchiving)
	for i := range list.Items {
		status := &list.Items[i].Status
		if status.DataCapturedTimestamp == nil || status.CompletionTimestamp == nil {
			return fmt.Errorf("the operation on %s ended without data: %s", list.Items[i].Spec.Item.Name, status.Message)
		}
		c.captured = max(c.captured, status.DataCapturedTimestamp.Sub(begun).Seconds())
		c.ready = max(c.ready, status.CompletionTimestamp.Sub(begun).Seconds())
	}
	e.note("The Backup captured %d claims in %.1f s, and their snapshots were ready after %.1f s", len(list.Items), c.captured, c.ready)
	return nil
}

// measureFreezes captures one claim of a frozen application with each of several Backups.
func (c *capturing) measureFreezes(ctx context.Context, e *environment) error {
	for i := range c.rounds {
		b, err := backUpClaims(ctx, e, fmt.Sprintf("frozen-%d", i), frozenNamespace)
		if err != nil {
			return err
		}
		var runs v1alpha1.HookRunList
		if err := e.client.List(ctx, &runs, client.InNamespace(b.Namespace), client.MatchingLabels{v1alpha1.LabelParentUID: string(b.UID)}); err != nil {
			return fmt.Errorf("listing the HookRuns: %w", err)
		}
		var from, to time.Time
		for i := range runs.Items {
			attempts := runs.Items[i].Status.Attempts
			if runs.Items[i].Spec.ActionName != snapshotFreezeAction || len(attempts) == 0 {
				continue
			}
			if runs.Items[i].Spec.Hook == v1alpha1.HookPreBackup {
				from = attempts[0].StartTimestamp.Time
			} else {
				to = attempts[len(attempts)-1].CompletionTimestamp.Time
			}
		}
		c.frozen += to.Sub(from).Seconds() / float64(c.rounds)
	}
	e.note("A freeze takes %.2f s, and a snapshot %.2f s without a Backup", c.frozen, c.single)
	return nil
}

// snapshotPlugins returns the Plugin for snapshots, and one with a pair around the capture of frozenNamespace.
func snapshotPlugins(e *environment) []*v1alpha1.Plugin {
	frozen := &metav1.LabelSelector{MatchLabels: map[string]string{"namespace": frozenNamespace}}
	return []*v1alpha1.Plugin{
		{
			ObjectMeta: metav1.ObjectMeta{Name: snapshotPlugin},
			Spec: v1alpha1.PluginSpec{Executor: v1alpha1.Executor{Process: &v1alpha1.ProcessExecutor{
				Command: "csi", Env: []v1alpha1.EnvVar{{Name: "KUBECONFIG", Value: e.plane.KubeconfigPath()}},
			}}},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: snapshotFreezePlugin},
			Spec: v1alpha1.PluginSpec{
				Executor: v1alpha1.Executor{Process: &v1alpha1.ProcessExecutor{Command: "faultplugin", Env: []v1alpha1.EnvVar{{
					Name: "FAULT_ACTIONS", Value: "PreBackupAction:" + snapshotFreezeAction + ",PostBackupAction:" + snapshotFreezeAction,
				}}}},
				Actions: []v1alpha1.PluginAction{
					{Name: snapshotFreezeAction, Kind: v1alpha1.ActionKindPreBackup, Selector: frozen},
					{Name: snapshotFreezeAction, Kind: v1alpha1.ActionKindPostBackup, Selector: frozen, RunAfter: v1alpha1.RunAfterDataCaptured},
				},
			},
		},
	}
}

// backUpClaims backs up a namespace and waits until the Backup has ended.
func backUpClaims(ctx context.Context, e *environment, name, namespace string) (*v1alpha1.Backup, error) {
	b := newBackup(name, namespace)
	b.Labels = map[string]string{"namespace": namespace}
	if err := e.client.Create(ctx, b); err != nil {
		return nil, fmt.Errorf("creating the Backup %s: %w", name, err)
	}
	if err := awaitBackup(ctx, e.client, b, func() bool { return ended(b.GetConditions()) }); err != nil {
		return nil, err
	}
	if b.Status.Phase != v1alpha1.RunPhaseCompleted {
		return nil, fmt.Errorf("the Backup %s ended %s: %s", name, b.Status.Phase, b.Status.Message)
	}
	return b, nil
}

// stageStart returns when a stage of a Backup began.
func stageStart(b *v1alpha1.Backup, stage string) time.Time {
	i := slices.IndexFunc(b.Status.Timeline, func(s v1alpha1.RunStage) bool { return s.Name == stage })
	if i < 0 {
		return time.Time{}
	}
	return b.Status.Timeline[i].StartTimestamp.Time
}

// pollUntil waits until a condition holds for some objects. Their number determines how often it lists them,
// so that this does not slow down what it waits for.
func pollUntil(ctx context.Context, what string, count int, holds func(context.Context) (bool, error)) error {
	interval := 20*time.Millisecond + time.Duration(count)*200*time.Microsecond
	if err := wait.PollUntilContextTimeout(ctx, interval, operationPatience, true, holds); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// figures of snapshots.
func (c capturing) figures() []figure {
	of := fmt.Sprintf(" of %d claims, %d at a time", c.claims, c.parallelism)
	return []figure{
		newFigure("data captured"+of, "s", c.captured, c.limit, captureTarget*c.limit),
		newFigure("snapshots ready"+of, "s", c.ready, c.limit, captureTarget*c.limit),
		newFigure(fmt.Sprintf("memory growth, %d claims", c.claims), "MiB", c.growth/mebibyte, 0, captureGrowthTarget),
		newFigure("freeze for one snapshot", "s", c.frozen, c.single, freezeTarget+c.single),
	}
}
