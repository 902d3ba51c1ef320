// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// reconcileUnstoredResults stores the log of a run that did not restore, or the results for each
// object if they could not be stored before. That happens in parallel with the PostRestore
// actions: a store that is down must not hold up clean-up.
func (r *Reconciler) reconcileUnstoredResults(_ context.Context, s *scope) (bool, error) {
	o := s.Object
	restored := lifecycle.IsCompletedOrPartiallyFailed(o)
	if lifecycle.IsFinalized(o) || !lifecycle.IsPlanned(o) || hasLostResults(o) || (restored && !hasUnstoredResults(o)) {
		return true, nil
	}
	why, what := lifecycle.OutcomeMessage(o), "storing the log of the run"
	if restored {
		what = "storing the results for each object"
	}
	tidied := lifecycle.ExecuteStepWithStore(r.driver, s, stepAbandon, r.newRunnerRequest, lifecycle.WithoutValue(
		func(ctx context.Context, store *storage.Store, request restore.RunRequest) error {
			if restored {
				return r.Runner.StorePendingReport(ctx, store, request)
			}
			return r.Runner.Abandon(ctx, store, request, why)
		}))
	switch {
	case tidied != nil && tidied.Err == nil:
		recordResultsStored(o)
	case tidied != nil && (objectstore.IsUnwritable(tidied.Err) || errors.Is(tidied.Err, restore.ErrResultsUnreadable)):
		r.recordResultsNotStored(s, v1alpha1.ReasonLogLost, fmt.Errorf("%s: %w", what, tidied.Err))
		recordResultsLost(s)
	default:
		if s.CleanupPending = lifecycle.AwaitStep(r.driver, s, stepAbandon, what, tidied); !s.CleanupPending && restored {
			recordResultsLost(s)
		}
	}
	return true, nil
}

// recordResultsNotStored records, once, that some results of a Restore could not be stored, as a
// warning. Storing them is retried until recordResultsLost.
func (r *Reconciler) recordResultsNotStored(s *scope, reason string, err error) {
	if conditions.Get(s.Object, v1alpha1.ConditionResultsStored) != nil {
		return
	}
	message := r.Redactor.String(err.Error())
	if !lifecycle.IsFinished(s.Object) {
		s.Object.Status.Warnings++
	}
	conditions.Set(s.Object, v1alpha1.ConditionResultsStored, metav1.ConditionUnknown, reason, lifecycle.TruncateMessage(message))
}

// recordResultsLost records that storing the results is not retried.
func recordResultsLost(s *scope) {
	if c := conditions.Get(s.Object, v1alpha1.ConditionResultsStored); c != nil {
		conditions.Set(s.Object, v1alpha1.ConditionResultsStored, metav1.ConditionFalse, c.Reason, c.Message)
	}
}

// recordResultsStored records that results which could not be stored before are stored now.
func recordResultsStored(o *v1alpha1.Restore) {
	if hasUnstoredResults(o) {
		conditions.Set(o, v1alpha1.ConditionResultsStored, metav1.ConditionTrue, v1alpha1.ReasonResultsStored, "The results were stored later")
	}
}

// hasUnstoredResults reports whether some results of the Restore could not be stored.
func hasUnstoredResults(o *v1alpha1.Restore) bool {
	c := conditions.Get(o, v1alpha1.ConditionResultsStored)
	return c != nil && c.Status != metav1.ConditionTrue
}

// hasLostResults reports whether storing the results is not retried.
func hasLostResults(o *v1alpha1.Restore) bool {
	c := conditions.Get(o, v1alpha1.ConditionResultsStored)
	return c != nil && c.Status == metav1.ConditionFalse
}

// reconcileFinalization stores the log of the Post actions and ends the run when nothing is owed.
func (r *Reconciler) reconcileFinalization(ctx context.Context, s *scope) (bool, error) {
	hasLog, ready := r.driver.AwaitPostActionLog(s, r.uploadPostActionLog)
	if !ready {
		return false, nil
	}
	r.recordStoredFiles(ctx, s, hasLog)
	r.driver.Finalize(s)
	return true, nil
}

// uploadPostActionLog uploads the log of the PostRestore actions.
func (r *Reconciler) uploadPostActionLog(s *scope) *lifecycle.Result[bool] {
	return lifecycle.ExecuteStepWithStore(r.driver, s, lifecycle.StepPostLog, r.newRunnerRequest, r.Runner.UploadPostActionLog)
}

// recordStoredFiles records where the files are stored.
func (r *Reconciler) recordStoredFiles(ctx context.Context, s *scope, postLog bool) {
	o := s.Object
	prefix, there := r.driver.LocationPrefix(ctx, o)
	if !lifecycle.IsPlanned(o) || !there {
		return
	}
	stored := conditions.Get(o, v1alpha1.ConditionResultsStored)
	hasFiles := stored == nil || stored.Status == metav1.ConditionTrue || stored.Reason == v1alpha1.ReasonOperationsNotStored
	if !hasFiles && !postLog {
		return
	}
	key := func(file storage.RestoreFile) string { return storage.RestoreFileKey(prefix, o.Name, file) }
	o.Status.Files = &v1alpha1.RestoreFiles{}
	if hasFiles {
		o.Status.Files = &v1alpha1.RestoreFiles{
			Log: key(storage.RestoreLogs), Results: key(storage.RestoreResults), ResourceList: key(storage.RestoreResourceList),
		}
	}
	if postLog {
		o.Status.Files.PostLog = key(storage.RestorePostLogs)
	}
}
