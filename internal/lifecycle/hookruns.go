// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/names"
)

// errStaleCache means that the cache does not show an earlier write yet. The watch will deliver
// it.
var errStaleCache = errors.New("the cache does not show the latest version of the run")

// createHookRuns creates the HookRuns of a plan, all of them waiting. HookRuns of an earlier
// plan that was not recorded are adopted if they are equal, and replaced otherwise. That must
// not happen to a run whose plan is recorded while the cache still shows an older version of the
// run.
func (d *Driver[T]) createHookRuns(ctx context.Context, s *Scope[T], hooks hook.Plan) error {
	if len(hooks.Pre)+len(hooks.Post) == 0 {
		return nil
	}
	live := d.New()
	if err := d.Reader.Get(ctx, namespacedNameOf(s.Object), live); err != nil {
		return fmt.Errorf("reading %s %s: %w", d.Kind.Name, s.Object.GetName(), err)
	}
	if live.GetUID() != s.Object.GetUID() || IsPlanned(live) || IsFinished(live) {
		return errStaleCache
	}
	for _, step := range hooks.Pre {
		run, err := d.createHookRun(ctx, s.Object, d.Kind.PreHookPoint, step)
		if err != nil {
			return err
		}
		s.Pre = append(s.Pre, run)
	}
	for _, step := range hooks.Post {
		run, err := d.createHookRun(ctx, s.Object, d.Kind.PostHookPoint, step)
		if err != nil {
			return err
		}
		s.Post = append(s.Post, run)
	}
	return nil
}

func (d *Driver[T]) createHookRun(ctx context.Context, o T, point v1alpha1.HookPoint, step hook.PlannedAction) (*v1alpha1.HookRun, error) {
	run := d.Kind.newHookRun(o, point, step)
	if err := controllerutil.SetControllerReference(o, run, d.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("setting the owner of HookRun %s: %w", run.Name, err)
	}
	err := d.Client.Create(ctx, run)
	if err == nil {
		return run, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating HookRun %s: %w", run.Name, err)
	}
	var existing v1alpha1.HookRun
	if err := d.Reader.Get(ctx, client.ObjectKeyFromObject(run), &existing); err != nil {
		return nil, fmt.Errorf("reading HookRun %s: %w", run.Name, err)
	}
	run.Spec.Intervention = existing.Spec.Intervention // a user may have skipped it already
	if existing.Labels[v1alpha1.LabelParentUID] == string(o.GetUID()) && existing.DeletionTimestamp.IsZero() &&
		equality.Semantic.DeepEqual(existing.Spec, run.Spec) {
		return &existing, nil
	}
	if err := d.deleteHookRun(ctx, &existing); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("recreating HookRun %s, which belongs to another plan", run.Name)
}

// newHookRun returns the HookRun of a planned action.
func (k KindTraits) newHookRun(o metav1.Object, point v1alpha1.HookPoint, step hook.PlannedAction) *v1alpha1.HookRun {
	spec := v1alpha1.HookRunSpec{
		Hook: point, ActionName: step.Name, PluginRef: v1alpha1.PluginReference{Name: step.Plugin},
		ParentRef: v1alpha1.ParentReference{Kind: k.Name, Name: o.GetName(), UID: string(o.GetUID())},
		Order:     step.Order, Timeout: metav1.Duration{Duration: step.Timeout}, Retries: step.Retries,
		FailurePolicy: v1alpha1.FailurePolicyFail, OnInterruption: v1alpha1.InterruptionPolicyRetry,
		Owed: step.Cleanup, DesiredState: v1alpha1.HookDesiredStateWait,
	}
	if step.IgnoreUnreachable {
		spec.FailurePolicy = v1alpha1.FailurePolicyIgnore
	}
	if step.FailOnInterruption && !step.Cleanup {
		spec.OnInterruption = v1alpha1.InterruptionPolicyFail
	}
	for _, outcome := range step.RunOn {
		spec.RunOn = append(spec.RunOn, v1alpha1.Outcome(outcome))
	}
	if step.AfterDataCaptured {
		spec.RunAfter = v1alpha1.RunAfterDataCaptured
	}
	for k, v := range step.Parameters {
		if spec.Parameters == nil {
			spec.Parameters = v1alpha1.ParameterSet{}
		}
		spec.Parameters[k] = v1alpha1.ParameterValue(v)
	}
	return &v1alpha1.HookRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: k.hookRunName(o, point, step.Name),
			Labels: map[string]string{
				k.NameLabel:             names.LabelValue(o.GetName()),
				v1alpha1.LabelParentUID: string(o.GetUID()),
				v1alpha1.LabelHook:      string(point),
			},
			Finalizers: []string{v1alpha1.FinalizerHookRun},
		},
		Spec: spec,
	}
}

// listPlannedHookRuns finds the HookRuns that the status names. If the cache does not contain
// one of them, it is read from the API server. A HookRun that does not exist there either was
// deleted without its finalizer.
func (d *Driver[T]) listPlannedHookRuns(ctx context.Context, s *Scope[T]) error {
	var list v1alpha1.HookRunList
	err := d.Client.List(ctx, &list, client.InNamespace(s.Object.GetNamespace()),
		client.MatchingLabels{v1alpha1.LabelParentUID: string(s.Object.GetUID())})
	if err != nil {
		return fmt.Errorf("listing the HookRuns: %w", err)
	}
	pre, post := s.Object.ActionsStatuses()
	byName := map[string]*v1alpha1.HookRun{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	if s.Pre, err = d.resolveHookRuns(ctx, s, d.Kind.PreHookPoint, *pre, byName); err != nil {
		return err
	}
	s.Post, err = d.resolveHookRuns(ctx, s, d.Kind.PostHookPoint, *post, byName)
	return err
}

func (d *Driver[T]) resolveHookRuns(
	ctx context.Context, s *Scope[T], point v1alpha1.HookPoint,
	actions *[]v1alpha1.ActionStatus, byName map[string]*v1alpha1.HookRun,
) ([]*v1alpha1.HookRun, error) {
	if actions == nil {
		return nil, nil
	}
	var runs []*v1alpha1.HookRun
	for _, action := range *actions {
		if run, ok := byName[action.HookRunName]; ok {
			runs = append(runs, run)
			continue
		}
		run, loading := &v1alpha1.HookRun{}, (*loadingError)(nil)
		err := d.Reader.Get(ctx, types.NamespacedName{Namespace: s.Object.GetNamespace(), Name: action.HookRunName}, run)
		if apierrors.IsNotFound(err) {
			run, err = d.recreateHookRun(ctx, s.Object, point, action)
		}
		if errors.As(err, &loading) {
			run, err = s.newPlaceholderHookRun(point, action, loading), nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading HookRun %s: %w", action.HookRunName, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// setDesiredState sets the desired state of a HookRun after the status is written. The API
// allows transitions in one direction only, so a second request is harmless.
func (d *Driver[T]) setDesiredState(s *Scope[T], run *v1alpha1.HookRun, state v1alpha1.HookDesiredState) {
	d.patchHookRun(s, run, map[string]any{"spec": map[string]any{"desiredState": state}})
}

func (d *Driver[T]) patchHookRun(s *Scope[T], run *v1alpha1.HookRun, change map[string]any) {
	s.AfterStatusUpdate(func(ctx context.Context) error {
		data, err := json.Marshal(change)
		if err != nil {
			return fmt.Errorf("encoding a patch: %w", err)
		}
		err = d.Client.Patch(ctx, run.DeepCopy(), client.RawPatch(types.MergePatchType, data))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("patching HookRun %s: %w", run.Name, err)
		}
		return nil
	})
}

// finalizeHookRuns removes the finalizers of the HookRuns of a finalized run. It returns false
// if it skipped a HookRun whose resources are still being removed, or that a user retries. If the plan
// was not recorded, it also deletes the HookRuns.
func (d *Driver[T]) finalizeHookRuns(ctx context.Context, o T) (all bool, err error) {
	var list v1alpha1.HookRunList
	err = d.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.MatchingLabels{v1alpha1.LabelParentUID: string(o.GetUID())})
	if err != nil {
		return false, fmt.Errorf("listing the HookRuns: %w", err)
	}
	all = true
	for i := range list.Items {
		run := &list.Items[i]
		if run.Status.Removing || isHookRunRetried(run) {
			all = false
			continue
		}
		release := d.removeHookRunFinalizer
		if !IsPlanned(o) {
			release = d.deleteHookRun
		}
		if err := release(ctx, run); err != nil {
			return false, err
		}
	}
	return all, nil
}

func (d *Driver[T]) removeHookRunFinalizer(ctx context.Context, run *v1alpha1.HookRun) error {
	if !controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun) {
		return nil
	}
	patch := client.MergeFromWithOptions(run.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(run, v1alpha1.FinalizerHookRun)
	if err := d.Client.Patch(ctx, run, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of HookRun %s: %w", run.Name, err)
	}
	return nil
}

func (d *Driver[T]) deleteHookRun(ctx context.Context, run *v1alpha1.HookRun) error {
	if err := d.removeHookRunFinalizer(ctx, run); err != nil {
		return err
	}
	if err := d.Client.Delete(ctx, run); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting HookRun %s: %w", run.Name, err)
	}
	return nil
}
