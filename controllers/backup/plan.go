// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// plan validates the Backup, waits for a slot, takes the name in the store and
// records what will run. Nothing runs before, and nothing is owed.
func (r *Reconciler) plan(ctx context.Context, s *scope) (bool, error) {
	switch {
	case planned(s.backup):
		return true, r.loadRuns(ctx, s)
	case decided(s.backup):
		return true, nil
	case s.stopping():
		return r.stopPlanning(s), nil
	}
	plugins, err := r.plugins(ctx, r.Client)
	if err != nil {
		return false, err
	}
	location, waiting, problem, err := r.findLocation(ctx, s)
	if err != nil || waiting {
		return false, err
	}
	hooks, loading := hooksOf(s.backup, plugins)
	if loading != "" {
		s.waiting(v1alpha1.ReasonWaitingForPlugins, fmt.Sprintf("Waiting for Plugin %s to be started", loading))
		return false, nil
	}
	errs := append(validate(s.backup), problem...)
	errs = append(errs, hooks.Errors...)
	if len(errs) > 0 {
		return r.reject(ctx, s, location, errs)
	}
	s.backup.Status.StorageLocation = location.Name
	if !r.queue.acquire(s.backup, false) {
		return r.queued(ctx, s, location)
	}
	return r.begin(ctx, s, location)
}

// stopPlanning ends a Backup that was cancelled before its plan was recorded.
func (r *Reconciler) stopPlanning(s *scope) bool {
	if r.stopSteps(s.backup.UID, stepCheck, stepClaim) {
		s.waiting(v1alpha1.ReasonCancelling, "Cancelling")
		return false
	}
	s.decide(outcome{
		v1alpha1.BackupPhaseCancelled, v1alpha1.ReasonCancelled, "Cancelled before it began: " + s.whyStopping(),
	}, r.Now())
	return true
}

// reject ends the Backup with everything that is wrong, which includes a name
// that is taken.
func (r *Reconciler) reject(ctx context.Context, s *scope, location *v1alpha1.BackupStorageLocation, errs []string) (bool, error) {
	if location != nil && job.ValidateName(s.backup.Name) == nil {
		checked, err := r.check(ctx, s, location)
		if err != nil || checked == nil {
			return false, err
		}
		errs = append(errs, r.storeProblems(location.Name, checked)...)
	}
	s.invalid(errs, r.Now())
	return true, nil
}

// queued waits for a slot. What is wrong with the name is told before that.
func (r *Reconciler) queued(ctx context.Context, s *scope, location *v1alpha1.BackupStorageLocation) (bool, error) {
	checked, err := r.check(ctx, s, location)
	if err != nil || checked == nil {
		return false, err
	}
	if problems := r.storeProblems(location.Name, checked); len(problems) > 0 {
		s.invalid(problems, r.Now())
		return true, nil
	}
	s.waiting(v1alpha1.ReasonQueued, fmt.Sprintf(
		"Waiting for one of %d slots; the operator's flag --max-concurrent-backups sets their number", r.MaxConcurrent))
	return false, nil
}

// check asks the store whether the name is free.
func (r *Reconciler) check(ctx context.Context, s *scope, location *v1alpha1.BackupStorageLocation) (*ended, error) {
	s.waiting(v1alpha1.ReasonValidating, "Asking the storage location whether the name is free")
	return r.inStore(ctx, s, stepCheck, location, func(ctx context.Context, store *store, request job.Request) (stepResult, error) {
		return stepResult{}, r.Job.Check(ctx, store.Store, request)
	})
}

// begin takes the name and records the plan. It is made of what the API server
// says now, not of what a watch brought so far: a Plugin that was applied right
// before the Backup must not be left out.
func (r *Reconciler) begin(ctx context.Context, s *scope, location *v1alpha1.BackupStorageLocation) (bool, error) {
	s.waiting(v1alpha1.ReasonValidating, "Taking the name in the storage location")
	claimed, err := r.inStore(ctx, s, stepClaim, location, r.claim)
	if err != nil || claimed == nil {
		return false, err
	}
	if problems := r.storeProblems(location.Name, claimed); len(problems) > 0 {
		s.invalid(problems, r.Now())
		return true, nil
	}
	hooks, loading := hooksOf(s.backup, claimed.Value.plugins)
	switch {
	case loading != "":
		r.steps.Forget(stepID(s.backup.UID, stepClaim))
		s.waiting(v1alpha1.ReasonWaitingForPlugins, fmt.Sprintf("Waiting for Plugin %s to be started", loading))
		s.again(time.Second) // until the watch has brought what was read directly
		return false, nil
	case len(hooks.Errors) > 0:
		s.invalid(hooks.Errors, r.Now())
		return true, nil
	}
	if err := r.createRuns(ctx, s, hooks); err != nil {
		return false, err
	}
	r.recordPlan(s, hooks)
	return true, nil
}

// claim takes the name and reads the Plugins meanwhile.
func (r *Reconciler) claim(ctx context.Context, store *store, request job.Request) (stepResult, error) {
	type read struct {
		plugins []v1alpha1.Plugin
		err     error
	}
	reading := make(chan read, 1)
	go func() {
		plugins, err := r.plugins(ctx, r.Reader)
		reading <- read{plugins, err}
	}()
	err := r.Job.Claim(ctx, store.Store, request)
	got := <-reading
	if err == nil {
		err = got.err
	}
	return stepResult{plugins: got.plugins}, err
}

// recordPlan writes down what will run, and that the run begins.
func (r *Reconciler) recordPlan(s *scope, hooks hook.Plan) {
	now := metav1.NewTime(r.Now())
	status := &s.backup.Status
	status.StartTimestamp, status.FormatVersion = &now, job.FormatVersion
	if ttl := s.backup.Spec.TTL; ttl != nil {
		expiration := metav1.NewTime(now.Add(ttl.Duration))
		status.Expiration = &expiration
	}
	for _, warning := range slices.Concat(hooks.Warnings, notYet(s.backup)) {
		if len(status.PlanWarnings) < maxList {
			status.PlanWarnings = append(status.PlanWarnings, short(warning))
		}
	}
	s.recordActions()
	conditions.Set(s.backup, v1alpha1.ConditionPlanned, metav1.ConditionTrue, v1alpha1.ReasonPlanRecorded, describePlan(hooks))
}

// notYet warns of what a spec asks for and this version does not do.
func notYet(b *v1alpha1.Backup) []string {
	var warnings []string
	if b.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		warnings = append(warnings, "spec.deletionPolicy Delete has no effect in this version: the stored data stays when the Backup is deleted")
	}
	if b.Spec.TTL != nil {
		warnings = append(warnings, "spec.ttl is recorded as status.expiration, and this version removes nothing when it is reached")
	}
	return warnings
}

func describePlan(hooks hook.Plan) string {
	message := fmt.Sprintf("%d PreBackup and %d PostBackup actions are planned", len(hooks.Pre), len(hooks.Post))
	var skipped []string
	for _, skip := range hooks.Skipped {
		skipped = append(skipped, fmt.Sprintf("%s %s is skipped: %s", hook.Points{Kind: "Backup"}.Title(skip.Side), skip.Name, skip.Reason))
	}
	if len(skipped) > 0 {
		message += "; " + strings.Join(skipped, "; ")
	}
	return message
}
