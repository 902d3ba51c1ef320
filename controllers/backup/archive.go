// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/text"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// reconcileArchive archives the objects. It is done when the step has ended, successfully or
// not.
func (r *Reconciler) reconcileArchive(ctx context.Context, s *scope) (bool, error) {
	if lifecycle.IsFinished(s.Object) || lifecycle.HasProcessedItems(s.Object) {
		return true, nil
	}
	if err := r.driver.ReconcileOperations(ctx, s, stepArchive); err != nil {
		return false, err
	}
	switch begun := r.driver.HasStepStarted(s, stepArchive); {
	case s.IsCancelRequested() && r.driver.CancelSteps(s, stepArchive):
		s.MarkRunning(v1alpha1.ReasonCancelling, "Canceling the archive")
		return false, nil
	case s.IsCancelRequested() && s.Object.Status.Attempts == 0:
		return true, nil
	case s.IsCancelRequested():
	case begun:
		r.driver.EnforceWorkTimeout(s, stepArchive, "archive")
	case !r.driver.PrepareRetry(s):
		return false, nil
	default:
		if may, err := r.beginArchiveAttempt(ctx, s); !may {
			return false, err
		}
	}
	s.MarkRunning(v1alpha1.ReasonArchiving, r.updateProgress(s.Object))
	made := r.startArchive(s)
	if made == nil {
		return false, nil
	}
	s.WorkFailed = made.Err != nil
	if made.Err == nil && made.Value.Operations > 0 {
		r.recordItemCounts(s, made.Value)
		s.MarkItemsProcessed(made.Value.Operations)
	}
	return true, nil
}

// beginArchiveAttempt counts a new attempt, unless the attempt has to wait.
func (r *Reconciler) beginArchiveAttempt(ctx context.Context, s *scope) (bool, error) {
	admission, err := r.driver.AdmitAttempt(ctx, s, stepArchive)
	if admission == lifecycle.AttemptAdmitted {
		s.Object.Status.Attempts++
		r.driver.EnforceWorkTimeout(s, stepArchive, "archive")
	}
	return admission != lifecycle.AttemptHeld, err
}

// startArchive starts archiving the objects, and returns the result when that has ended.
func (r *Reconciler) startArchive(s *scope) *lifecycle.Result[backup.Result] {
	return lifecycle.ExecuteStepWithStore(r.driver, s, stepArchive, r.newRunnerRequest, r.newArchiveStep(s))
}

// newArchiveStep returns the work of the archive step. If the run is being canceled after the
// operator was interrupted, the work only checks whether the archive was committed already.
func (r *Reconciler) newArchiveStep(s *scope) func(context.Context, *storage.Store, backup.Request) (backup.Result, error) {
	work, planned := r.Runner.Archive, s.Object.Status.ItemActions
	if s.IsCancelRequested() {
		work, planned = r.Runner.FindCommitted, nil
	}
	report, hooks := r.driver.NewProgressReporter(s.Object), slices.Concat(s.Pre, s.Post)
	return func(ctx context.Context, store *storage.Store, request backup.Request) (_ backup.Result, err error) {
		if request.RunsPodHooks, err = lifecycle.HasBuiltinAction(ctx, r.Client, hooks, lifecycle.RunsVeleroHooks); err != nil {
			return backup.Result{}, err
		}
		if err := lifecycle.WaitForPlugins(ctx, r.Client, r.Actions, planned); err != nil {
			return backup.Result{}, err
		}
		request.Progress = report
		result, err := work(ctx, store, request)
		var panicked *panics.Error
		if errors.As(err, &panicked) {
			ctrl.Log.WithName("backup").Error(err, "Recovered from a panic of a backup", "stack", string(panicked.Stack))
		}
		return result, err
	}
}

// reconcileOutcome stores the results of the operations, if there were any, and records the
// outcome.
func (r *Reconciler) reconcileOutcome(ctx context.Context, s *scope) (bool, error) {
	switch {
	case lifecycle.IsFinished(s.Object):
		return true, nil
	case s.IsCancelRequested() && s.Object.Status.Attempts == 0:
		s.RecordOutcome(s.CancelledOutcome(), r.Now())
		return true, nil
	}
	made := r.startArchive
	if lifecycle.HasProcessedItems(s.Object) {
		made = r.startFinalize
	}
	ended := made(s)
	if ended == nil {
		return false, nil
	}
	if added, err := r.addRequestedLabels(ctx, s, ended.Value.Labels); added || err != nil {
		return false, err
	}
	if ended.Err == nil {
		r.recordStoredBackup(ctx, s.Object)
	}
	r.recordOutcome(s, ended)
	return true, nil
}

// recordStoredBackup records that a stored backup has a Backup in this cluster. The Backup may
// be deleted as soon as it is finished, and sync must not import it again then. An error is only
// logged: sync records the backup later, and a backup must not be lost for that.
func (r *Reconciler) recordStoredBackup(ctx context.Context, b *v1alpha1.Backup) {
	one := tombstone.Records{}
	one.Add(b.StoredName(), string(b.UID), true)
	if err := tombstone.AddRecords(ctx, r.Client, r.Reader, b.Namespace, b.Status.StorageLocation, one); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Recording that a backup is stored failed")
	}
}

func (r *Reconciler) recordOutcome(s *scope, made *lifecycle.Result[backup.Result]) {
	if made.Err != nil {
		s.RecordOutcome(r.driver.FailedOutcome(s, "Creating the archive failed", made.Err), r.Now())
		forgetDataCaptured(s.Object)
		return
	}
	result := made.Value
	if result.Bytes > 0 {
		r.metrics.setArchiveSize(s.Object, result.Bytes)
	}
	r.recordItemCounts(s, result)
	status := &s.Object.Status
	o := lifecycle.Outcome{
		Phase: v1alpha1.RunPhaseCompleted, Reason: v1alpha1.ReasonCompleted,
		Message: text.Pluralize(int64(result.Items), "object") + " in the archive" + s.OperationsOutcomeText(),
	}
	if result.Errors > 0 {
		o.Phase, o.Reason = v1alpha1.RunPhasePartiallyFailed, v1alpha1.ReasonPartiallyFailed
		o.Message += ", " + describeErrors(s.Object, result.MissingNamespaces)
	}
	if result.Warnings > 0 {
		o.Message += ", " + lifecycle.DescribeWarnings(&status.RunStatus)
	}
	s.RecordOutcome(o, result.Completed)
}

// describeErrors describes the errors of an archive. If namespaces are missing, it names them, because
// that is the most common mistake and explains the most.
func describeErrors(b *v1alpha1.Backup, missingNamespaces []string) string {
	if len(missingNamespaces) == 0 {
		return lifecycle.DescribeErrors(&b.Status.RunStatus)
	}
	return text.Pluralize(b.Status.Errors, "error") + ": " + describeMissingNamespaces(b.Spec.IncludedNamespaces, missingNamespaces)
}

// maxNamedNamespaces is how many namespaces a message names.
const maxNamedNamespaces = 10

// describeMissingNamespaces describes which of the included namespaces do not exist.
func describeMissingNamespaces[S ~string](included []S, missing []string) string {
	names := make([]string, 0, maxNamedNamespaces+1)
	for i, name := range missing {
		if i == maxNamedNamespaces {
			names = append(names, fmt.Sprintf("and %d more", len(missing)-i))
			break
		}
		names = append(names, strconv.Quote(name))
	}
	list := strings.Join(names, ", ")
	exists := func(name S) bool { return !slices.Contains(missing, string(name)) }
	switch {
	case !slices.ContainsFunc(included, exists):
		return "none of the included namespaces exists (" + list + ")"
	case len(missing) == 1:
		return "namespace " + list + " does not exist"
	}
	return "namespaces " + list + " do not exist"
}

// recordItemCounts copies the counts of the archive into the status.
func (r *Reconciler) recordItemCounts(s *scope, result backup.Result) {
	status, items := &s.Object.Status, int64(result.Items)
	status.Progress = &v1alpha1.BackupProgress{TotalItems: items, ItemsBackedUp: items}
	status.Warnings, status.Errors = int64(result.Warnings), int64(result.Errors)
	lifecycle.RecordProblems(&status.RunStatus, result.Problems, r.Redactor)
	if v := result.Volumes; v.Claims > 0 {
		status.Volumes = &v1alpha1.VolumeCounts{Claims: int32(v.Claims), Skipped: int32(v.Skipped)} //nolint:gosec // as many objects fit into no cluster
	}
	recordDataCaptured(s)
}

// updateProgress copies the progress into the status, and returns a message about it.
func (r *Reconciler) updateProgress(b *v1alpha1.Backup) string {
	total, done, known := r.driver.Progress(b)
	if !known {
		return "Archiving"
	}
	b.Status.Progress = &v1alpha1.BackupProgress{TotalItems: total, ItemsBackedUp: done}
	return fmt.Sprintf("Archiving: %d of %s", done, text.Pluralize(total, "object"))
}
