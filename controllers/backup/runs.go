// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

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
)

// errStale means that the cache does not show what was written already; the watch
// will bring it.
var errStale = errors.New("the cache is behind")

// createRuns creates the HookRuns of a plan, all of them waiting. Those of an
// earlier plan that was not recorded are adopted if they are the same, and
// replaced otherwise. It must not happen for a Backup whose plan is recorded
// already and that the cache still shows as it was before.
func (r *Reconciler) createRuns(ctx context.Context, s *scope, hooks hook.Plan) error {
	if len(hooks.Pre)+len(hooks.Post) == 0 {
		return nil
	}
	var live v1alpha1.Backup
	if err := r.Reader.Get(ctx, ownerOf(s.backup), &live); err != nil {
		return fmt.Errorf("reading Backup %s: %w", s.backup.Name, err)
	}
	if live.UID != s.backup.UID || planned(&live) || decided(&live) {
		return errStale
	}
	for _, step := range hooks.Pre {
		run, err := r.createRun(ctx, s.backup, v1alpha1.HookPreBackup, step)
		if err != nil {
			return err
		}
		s.pre = append(s.pre, run)
	}
	for _, step := range hooks.Post {
		run, err := r.createRun(ctx, s.backup, v1alpha1.HookPostBackup, step)
		if err != nil {
			return err
		}
		s.post = append(s.post, run)
	}
	return nil
}

func (r *Reconciler) createRun(ctx context.Context, b *v1alpha1.Backup, point v1alpha1.HookPoint, step hook.Step) (*v1alpha1.HookRun, error) {
	run := runOf(b, point, step)
	if err := controllerutil.SetControllerReference(b, run, r.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("owning HookRun %s: %w", run.Name, err)
	}
	err := r.Client.Create(ctx, run)
	if err == nil {
		return run, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating HookRun %s: %w", run.Name, err)
	}
	var existing v1alpha1.HookRun
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(run), &existing); err != nil {
		return nil, fmt.Errorf("reading HookRun %s: %w", run.Name, err)
	}
	if existing.Labels[v1alpha1.LabelParentUID] == string(b.UID) && existing.DeletionTimestamp.IsZero() &&
		equality.Semantic.DeepEqual(existing.Spec, run.Spec) {
		return &existing, nil
	}
	if err := r.removeRun(ctx, &existing); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("HookRun %s was of another plan and is made anew", run.Name)
}

// runOf is the HookRun of a planned step.
func runOf(b *v1alpha1.Backup, point v1alpha1.HookPoint, step hook.Step) *v1alpha1.HookRun {
	spec := v1alpha1.HookRunSpec{
		Hook: point, PluginName: step.Name, PluginRef: v1alpha1.PluginReference{Name: step.Plugin},
		Subject: v1alpha1.SubjectReference{Kind: "Backup", Name: b.Name, UID: string(b.UID)},
		Order:   step.Order, Timeout: metav1.Duration{Duration: step.Timeout}, Retries: step.Retries,
		FailurePolicy: v1alpha1.FailurePolicyFail, OnInterruption: v1alpha1.InterruptionPolicyRetry,
		Owed: step.Owed, DesiredState: v1alpha1.HookDesiredStateWait,
	}
	if step.IgnoreUnreachable {
		spec.FailurePolicy = v1alpha1.FailurePolicyIgnore
	}
	if step.FailOnInterruption && !step.Owed {
		spec.OnInterruption = v1alpha1.InterruptionPolicyFail
	}
	for _, outcome := range step.RunOn {
		spec.RunOn = append(spec.RunOn, v1alpha1.Outcome(outcome))
	}
	for k, v := range step.Parameters {
		if spec.Parameters == nil {
			spec.Parameters = v1alpha1.ParameterSet{}
		}
		spec.Parameters[k] = v1alpha1.ParameterValue(v)
	}
	return &v1alpha1.HookRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: runName(b, point, step.Name),
			Labels: map[string]string{
				v1alpha1.LabelBackupName: labelValue(b.Name),
				v1alpha1.LabelParentUID:  string(b.UID),
				v1alpha1.LabelHook:       string(point),
			},
			Finalizers: []string{v1alpha1.FinalizerHookRun},
		},
		Spec: spec,
	}
}

// loadRuns finds the HookRuns that the status names. What a cache does not know
// is asked for; what is gone was removed by force.
func (r *Reconciler) loadRuns(ctx context.Context, s *scope) error {
	var list v1alpha1.HookRunList
	err := r.Client.List(ctx, &list, client.InNamespace(s.backup.Namespace),
		client.MatchingLabels{v1alpha1.LabelParentUID: string(s.backup.UID)})
	if err != nil {
		return fmt.Errorf("listing the HookRuns: %w", err)
	}
	byName := map[string]*v1alpha1.HookRun{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	if s.pre, err = r.pickRuns(ctx, s.backup, v1alpha1.HookPreBackup, s.backup.Status.PreBackupActionsStatuses, byName); err != nil {
		return err
	}
	s.post, err = r.pickRuns(ctx, s.backup, v1alpha1.HookPostBackup, s.backup.Status.PostBackupActionsStatuses, byName)
	return err
}

func (r *Reconciler) pickRuns(
	ctx context.Context, b *v1alpha1.Backup, point v1alpha1.HookPoint,
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
		run := &v1alpha1.HookRun{}
		err := r.Reader.Get(ctx, types.NamespacedName{Namespace: b.Namespace, Name: action.HookRunName}, run)
		if apierrors.IsNotFound(err) {
			run, err = r.recover(ctx, b, point, action)
		}
		if err != nil {
			return nil, fmt.Errorf("reading HookRun %s: %w", action.HookRunName, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// want asks the HookRun controller for something, once the status is written.
// The API lets the switch go one way only, so a second request is harmless.
func (r *Reconciler) want(s *scope, run *v1alpha1.HookRun, state v1alpha1.HookDesiredState) {
	r.patchRun(s, run, map[string]any{"spec": map[string]any{"desiredState": state}})
}

func (r *Reconciler) patchRun(s *scope, run *v1alpha1.HookRun, change map[string]any) {
	s.then(func(ctx context.Context) error {
		data, err := json.Marshal(change)
		if err != nil {
			return fmt.Errorf("encoding a patch: %w", err)
		}
		err = r.Client.Patch(ctx, run.DeepCopy(), client.RawPatch(types.MergePatchType, data))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("changing HookRun %s: %w", run.Name, err)
		}
		return nil
	})
}

// releaseRuns lets go of the HookRuns of a settled Backup. Of a Backup that
// never began, none may stay.
func (r *Reconciler) releaseRuns(ctx context.Context, b *v1alpha1.Backup) error {
	var list v1alpha1.HookRunList
	err := r.Client.List(ctx, &list, client.InNamespace(b.Namespace), client.MatchingLabels{v1alpha1.LabelParentUID: string(b.UID)})
	if err != nil {
		return fmt.Errorf("listing the HookRuns: %w", err)
	}
	for i := range list.Items {
		run := &list.Items[i]
		release := r.releaseRun
		if !planned(b) {
			release = r.removeRun
		}
		if err := release(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) releaseRun(ctx context.Context, run *v1alpha1.HookRun) error {
	if !controllerutil.ContainsFinalizer(run, v1alpha1.FinalizerHookRun) {
		return nil
	}
	patch := client.MergeFromWithOptions(run.DeepCopy(), client.MergeFromWithOptimisticLock{})
	controllerutil.RemoveFinalizer(run, v1alpha1.FinalizerHookRun)
	if err := r.Client.Patch(ctx, run, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing HookRun %s: %w", run.Name, err)
	}
	return nil
}

func (r *Reconciler) removeRun(ctx context.Context, run *v1alpha1.HookRun) error {
	if err := r.releaseRun(ctx, run); err != nil {
		return err
	}
	if err := r.Client.Delete(ctx, run); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing HookRun %s: %w", run.Name, err)
	}
	return nil
}
