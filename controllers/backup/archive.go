// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
)

// archive has the objects archived, and turns what came of it into the outcome.
func (r *Reconciler) archive(ctx context.Context, s *scope) (bool, error) {
	if decided(s.backup) {
		return true, nil
	}
	if s.stopping() {
		if r.stopSteps(s.backup.UID, stepArchive) {
			s.running(v1alpha1.ReasonCancelling, "Stopping the archive")
			return false, nil
		}
		if s.backup.Status.Attempts == 0 {
			s.decide(cancelled(s), r.Now())
			return true, nil
		}
	}
	if _, known := r.steps.State(stepID(s.backup.UID, stepArchive)); !known {
		s.backup.Status.Attempts++
	}
	s.running(v1alpha1.ReasonArchiving, r.progress.report(s.backup))
	made, err := r.inStore(ctx, s, stepArchive, nil, r.archiver(s))
	if err != nil || made == nil {
		return false, err
	}
	r.settleArchive(s, made)
	return true, nil
}

// archiver returns the work of the archive step. A run that is being stopped
// after an operator went away only looks whether it had succeeded already.
func (r *Reconciler) archiver(s *scope) func(context.Context, *store, job.Request) (stepResult, error) {
	work, owner, uid := r.Job.Archive, ownerOf(s.backup), s.backup.UID
	if s.stopping() {
		work = r.Job.Earlier
	}
	return func(ctx context.Context, store *store, request job.Request) (stepResult, error) {
		last := r.Now()
		request.Progress = func(total, done int) {
			r.progress.set(uid, total, done)
			if now := r.Now(); now.Sub(last) >= time.Second {
				last = now
				r.wake(owner)
			}
		}
		made, err := work(ctx, store.Store, request)
		return stepResult{made: made}, err
	}
}

// settleArchive records the outcome of the archive step.
func (r *Reconciler) settleArchive(s *scope, made *ended) {
	defer r.progress.drop(s.backup.UID)
	if made.Err != nil {
		if s.stopping() {
			s.decide(cancelled(s), r.Now())
			return
		}
		s.decide(outcome{
			v1alpha1.BackupPhaseFailed, v1alpha1.ReasonFailed,
			"The archive could not be made: " + r.Redactor.String(made.Err.Error()),
		}, r.Now())
		return
	}
	result := made.Value.made
	if result.Bytes > 0 {
		r.Metrics.archived(s.backup, result.Bytes)
	}
	status := &s.backup.Status
	items := int64(result.Items)
	status.Progress = &v1alpha1.BackupProgress{TotalItems: items, ItemsBackedUp: items}
	status.Warnings, status.Errors = int64(result.Warnings), int64(result.Errors)
	o := outcome{v1alpha1.BackupPhaseCompleted, v1alpha1.ReasonCompleted, count(items, "object") + " in the archive"}
	if result.Errors > 0 {
		o.phase, o.reason = v1alpha1.BackupPhasePartiallyFailed, v1alpha1.ReasonPartiallyFailed
		o.message += ", " + count(status.Errors, "error") + " (listed in the results file)"
	}
	if result.Warnings > 0 {
		o.message += ", " + count(status.Warnings, "warning")
	}
	s.decide(o, result.Completed)
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// progress knows how far the archives of this process are.
type progress struct{ runs sync.Map }

type counters struct{ total, done atomic.Int64 }

func (p *progress) set(uid types.UID, total, done int) {
	v, _ := p.runs.LoadOrStore(uid, &counters{})
	if c, ok := v.(*counters); ok {
		c.total.Store(int64(total))
		c.done.Store(int64(done))
	}
}

func (p *progress) drop(uid types.UID) { p.runs.Delete(uid) }

// report copies the counts into the status and says them.
func (p *progress) report(b *v1alpha1.Backup) string {
	v, _ := p.runs.Load(b.UID)
	c, ok := v.(*counters)
	if !ok {
		return "Archiving"
	}
	b.Status.Progress = &v1alpha1.BackupProgress{TotalItems: c.total.Load(), ItemsBackedUp: c.done.Load()}
	return fmt.Sprintf("Archiving: %d of %s", c.done.Load(), count(c.total.Load(), "object"))
}
