// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
)

// reconcilePlan validates the Backup, waits for a slot, claims the name in the store, and
// records the plan. Before that, nothing runs and no clean-up is owed.
func (r *Reconciler) reconcilePlan(ctx context.Context, s *scope) (bool, error) {
	if needed, done, err := r.driver.ObservePlan(ctx, s); !needed || err != nil {
		return done, err
	}
	plugins, err := r.driver.ListPlugins(ctx, r.Client)
	if err != nil {
		return false, err
	}
	invalid := lifecycle.ValidateBackup(s.Object)
	where, waiting, problems, err := r.driver.ChooseLocation(ctx, s, s.Object.Spec.StorageLocation, location.ForWriting)
	if err != nil || waiting && len(invalid) == 0 {
		return false, err // waiting does not fix an invalid spec
	}
	if where != "" {
		s.Object.Status.StorageLocation = where
	}
	hooks, loading := lifecycle.BackupKind.BuildHookPlan(s.Object, plugins)
	if loading != "" {
		s.MarkWaitingForPlugin(loading)
		return false, nil
	}
	if len(invalid) == 0 && len(problems) == 0 && r.driver.AwaitPlugins(s, hooks) {
		return false, nil
	}
	if errs := slices.Concat(invalid, problems, hooks.Errors); len(errs) > 0 {
		return r.rejectInvalid(s, errs, where != ""), nil
	}
	if !r.driver.AcquireSlot(s) {
		return r.reconcileQueued(s), nil
	}
	return r.beginRun(ctx, s)
}

// rejectInvalid ends the Backup with all validation errors, including that the name is taken.
func (r *Reconciler) rejectInvalid(s *scope, errs []string, located bool) bool {
	if located && storage.ValidateName(s.Object.Name) == nil {
		checked := r.startNameCheck(s)
		if checked == nil {
			return false
		}
		errs = append(errs, r.storeProblemMessages(s.Object.Status.StorageLocation, checked.Err)...)
	}
	s.FailValidation(errs, r.Now())
	return true
}

// reconcileQueued waits for a slot. It checks the name first, so that problems are reported
// early.
func (r *Reconciler) reconcileQueued(s *scope) bool {
	checked := r.startNameCheck(s)
	if checked == nil {
		return false
	}
	if problems := r.storeProblemMessages(s.Object.Status.StorageLocation, checked.Err); len(problems) > 0 {
		if r.retryAfterStoreError(s, stepCheck, checked.Err, problems) {
			return false
		}
		s.FailValidation(problems, r.Now())
		return true
	}
	r.driver.MarkWaitingForSlot(s)
	return false
}

// startNameCheck starts checking whether the name is free in the store.
func (r *Reconciler) startNameCheck(s *scope) *lifecycle.Result[lifecycle.NoValue] {
	s.MarkWaiting(v1alpha1.ReasonValidating, "Checking whether the name is free in the storage location")
	return lifecycle.ExecuteStepWithStore(r.driver, s, stepCheck, r.newRunnerRequest, lifecycle.WithoutValue(r.Runner.CheckClaim))
}

// beginRun claims the name and records the plan. The Plugins are read from the API server,
// because the cache may lag: a Plugin that was applied right before the Backup must not be
// missed.
func (r *Reconciler) beginRun(ctx context.Context, s *scope) (bool, error) {
	s.MarkWaiting(v1alpha1.ReasonValidating, "Claiming the name in the storage location")
	claimed := lifecycle.ExecuteStepWithStore(r.driver, s, stepClaim, r.newRunnerRequest, r.claimNameAndListPlugins)
	if claimed == nil {
		return false, nil
	}
	if problems := r.storeProblemMessages(s.Object.Status.StorageLocation, claimed.Err); len(problems) > 0 {
		if r.retryAfterStoreError(s, stepClaim, claimed.Err, problems) {
			return false, nil
		}
		s.FailValidation(problems, r.Now())
		return true, nil
	}
	hooks, loading := lifecycle.BackupKind.BuildHookPlan(s.Object, claimed.Value)
	switch {
	case loading != "":
		r.driver.ResetStep(s, stepClaim)
		s.MarkWaitingForPlugin(loading)
		s.RequeueAfter(time.Second) // until the cache has what was read directly
		return false, nil
	case r.driver.AwaitPlugins(s, hooks):
		r.driver.ResetStep(s, stepClaim)
		s.RequeueAfter(time.Second)
		return false, nil
	case len(hooks.Errors) > 0:
		s.FailValidation(hooks.Errors, r.Now())
		return true, nil
	}
	if checked := r.checkRequiredCapture(s, hooks); !checked || lifecycle.IsFinished(s.Object) {
		return checked, nil
	}
	s.Object.Status.FormatVersion = backup.FormatVersion
	if s.Object.Spec.TTL == nil && r.DefaultTTL > 0 {
		s.Object.Status.DefaultTTL = &metav1.Duration{Duration: r.DefaultTTL}
	}
	if ttl := s.Object.TTL(); ttl > 0 {
		expiration := metav1.NewTime(r.Now().Add(ttl))
		s.Object.Status.Expiration = &expiration
	}
	return true, r.driver.RecordPlan(ctx, s, hooks)
}

// checkRequiredCapture checks, if the spec requires it, that the data of every claim would be in the
// backup, and otherwise fails its validation. It is done when the check has ended.
func (r *Reconciler) checkRequiredCapture(s *scope, hooks hook.Plan) (done bool) {
	if v := s.Object.Spec.Volumes; v == nil || !v.RequireCaptured {
		return true
	}
	s.MarkWaiting(v1alpha1.ReasonValidating, "Checking whether the data of every PersistentVolumeClaim would be captured")
	checked := lifecycle.ExecuteStepWithStore(r.driver, s, stepCapture, func(s *scope) (backup.Request, error) {
		request, err := r.newRunnerRequest(s)
		planned := s.Object.DeepCopy()
		planned.Status.ItemActions = lifecycle.ToPlannedItemActions(hooks.Items)
		request.ItemActions = lifecycle.NewItemActionSpecs(planned, r.Actions.BackupItemAction)
		return request, err
	}, func(ctx context.Context, _ *storage.Store, request backup.Request) ([]string, error) {
		return r.Runner.CheckCapture(ctx, request)
	})
	switch {
	case checked == nil:
		return false
	case checked.Err != nil:
		s.MarkWaiting(v1alpha1.ReasonValidating, lifecycle.TruncateMessage(
			"Checking whether the data of every PersistentVolumeClaim would be captured failed: "+r.Redactor.String(checked.Err.Error())+"; retrying"))
		r.driver.RetryForever(s, stepCapture)
		return false
	case len(checked.Value) > 0:
		s.FailValidation(append([]string{"spec.volumes.requireCaptured is true, and claims would have no data in this backup"}, checked.Value...), r.Now())
	}
	return true
}

// claimNameAndListPlugins claims the name, and lists the Plugins at the same time.
func (r *Reconciler) claimNameAndListPlugins(ctx context.Context, store *storage.Store, request backup.Request) ([]v1alpha1.Plugin, error) {
	type read struct {
		plugins []v1alpha1.Plugin
		err     error
	}
	reading := make(chan read, 1)
	go func() {
		var got read
		defer func() { reading <- got }()
		defer panics.Recover(&got.err)
		got.plugins, got.err = r.driver.ListPlugins(ctx, r.Reader)
	}()
	err := r.Runner.Claim(ctx, store, request)
	got := <-reading
	if err == nil {
		err = got.err
	}
	return got.plugins, err
}

// retryAfterStoreError schedules a retry of a step that could not reach the store, and reports
// whether it did. A name that is taken is not retried.
func (r *Reconciler) retryAfterStoreError(s *scope, step string, err error, problems []string) bool {
	if backup.IsNameTaken(err) || !r.driver.AwaitLocationRecovery(s, problems) {
		return false
	}
	r.driver.RetryForever(s, step)
	return true
}

// storeProblemMessages returns what a user can do about an error of the store.
func (r *Reconciler) storeProblemMessages(location string, err error) []string {
	if err == nil {
		return nil
	}
	message := r.Redactor.String(err.Error())
	if backup.IsNameTaken(err) {
		return []string{message + "; choose another name, or remove that backup first"}
	}
	return []string{fmt.Sprintf("BackupStorageLocation %s cannot be used: %s", location, message)}
}
