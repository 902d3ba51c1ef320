// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
)

// abandon keeps the log of a run that ended without a manifest, and gives its
// name back. It goes on beside the PostBackup actions: a store that is down must
// not hold up clean-up.
func (r *Reconciler) abandon(ctx context.Context, s *scope) (bool, error) {
	b := s.backup
	if stored(b) || settled(b) || b.Status.StorageLocation == "" {
		return true, nil
	}
	why := outcomeMessage(b)
	step, work := stepAbandon, func(ctx context.Context, store *store, request job.Request) (stepResult, error) {
		return stepResult{}, r.Job.Abandon(ctx, store.Store, request, why)
	}
	if !planned(b) {
		step, work = stepRelease, func(ctx context.Context, store *store, request job.Request) (stepResult, error) {
			return stepResult{}, r.Job.Release(ctx, store.Store, request)
		}
	}
	tidied, err := r.inStore(ctx, s, step, nil, work)
	if err != nil {
		return false, err
	}
	switch {
	case tidied == nil:
		s.left = true
	case tidied.Err == nil && planned(b):
		b.Status.Files = r.files(ctx, b, b.Status.Files)
	case tidied.Err != nil && planned(b):
		s.left = r.repeatStep(s, step, "storing the log of the run", tidied.Err)
	}
	return true, nil
}

// finish stores the log of the PostBackup actions and ends the work.
func (r *Reconciler) finish(ctx context.Context, s *scope) (bool, error) {
	b := s.backup
	s.judgePostActions()
	if started(s.post) {
		s.finishing(v1alpha1.ReasonStoringLogs, "storing the log of the PostBackup actions")
		logged, err := r.inStore(ctx, s, stepPostLog, nil, func(ctx context.Context, store *store, request job.Request) (stepResult, error) {
			logged, err := r.Job.StorePostLog(ctx, store.Store, request)
			return stepResult{logged: logged}, err
		})
		if err != nil || logged == nil {
			return false, err
		}
		if logged.Err != nil && r.repeatStep(s, stepPostLog, "storing the log of the PostBackup actions", logged.Err) {
			return false, nil
		}
		if logged.Value.logged {
			b.Status.Files = r.files(ctx, b, b.Status.Files)
			b.Status.Files.PostLog = r.key(ctx, b, job.PostLogs)
		}
	}
	if s.left {
		return false, nil
	}
	if stored(b) {
		b.Status.Files = r.files(ctx, b, b.Status.Files)
	}
	s.done()
	s.then(func(ctx context.Context) error { return r.letGo(ctx, b) })
	return true, nil
}

func started(runs []*v1alpha1.HookRun) bool {
	for _, run := range runs {
		if run.Status.StartTimestamp != nil {
			return true
		}
	}
	return false
}

// judgePostActions says whether the PostBackup actions that ran did well. It
// does not change the outcome.
func (s *scope) judgePostActions() {
	if !started(s.post) {
		return
	}
	var failed []string
	for _, run := range s.post {
		if run.Status.Phase == v1alpha1.HookRunPhaseFailed || run.Status.Phase == v1alpha1.HookRunPhaseCancelled {
			failed = append(failed, fmt.Sprintf("%s (%s)", run.Spec.PluginName, run.Status.Message))
		}
	}
	if len(failed) == 0 {
		conditions.Set(s.backup, v1alpha1.ConditionPostActionsSucceeded, metav1.ConditionTrue, v1alpha1.ReasonPostActionsSucceeded,
			"Every PostBackup action that ran did well")
		return
	}
	conditions.Set(s.backup, v1alpha1.ConditionPostActionsSucceeded, metav1.ConditionFalse, v1alpha1.ReasonPostActionFailed,
		short("PostBackup action failed: "+strings.Join(failed, ", ")))
}

// files names what was stored.
func (r *Reconciler) files(ctx context.Context, b *v1alpha1.Backup, known *v1alpha1.BackupFiles) *v1alpha1.BackupFiles {
	files := &v1alpha1.BackupFiles{}
	if known != nil {
		files = known.DeepCopy()
	}
	files.Log, files.Results = r.key(ctx, b, job.Logs), r.key(ctx, b, job.Results)
	if stored(b) {
		files.Archive = r.key(ctx, b, job.Contents)
	}
	return files
}

// key returns where a file of the backup is, below the root of its location;
// empty if the location is gone.
func (r *Reconciler) key(ctx context.Context, b *v1alpha1.Backup, file job.File) string {
	var location v1alpha1.BackupStorageLocation
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Status.StorageLocation}, &location)
	if err != nil {
		return ""
	}
	return job.Key(location.Spec.Prefix, b.Name, file)
}

// letGo ends what holds a settled Backup: its HookRuns, its log, its finalizer.
// Everything in it may be repeated.
func (r *Reconciler) letGo(ctx context.Context, b *v1alpha1.Backup) error {
	r.queue.release(b.UID)
	if !controllerutil.ContainsFinalizer(b, v1alpha1.FinalizerRun) {
		return nil
	}
	if err := r.releaseRuns(ctx, b); err != nil {
		return err
	}
	r.forget(b.UID)
	patch := client.MergeFromWithOptions(b.DeepCopy(), client.MergeFromWithOptimisticLock{})
	released := b.DeepCopy()
	controllerutil.RemoveFinalizer(released, v1alpha1.FinalizerRun)
	if err := r.Client.Patch(ctx, released, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing Backup %s: %w", b.Name, err)
	}
	return nil
}
