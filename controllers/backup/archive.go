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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// archive has the objects archived, and turns what came of it into the outcome.
func (r *Reconciler) archive(_ context.Context, s *scope) (bool, error) {
	if run.Decided(s.Object) {
		return true, nil
	}
	if s.Stopping() {
		if r.driver.StopSteps(s, stepArchive) {
			s.Running(v1alpha1.ReasonCancelling, "Stopping the archive")
			return false, nil
		}
		if s.Object.Status.Attempts == 0 {
			s.Decide(s.CancelledOutcome(), r.Now())
			return true, nil
		}
	}
	if !r.driver.Begun(s, stepArchive) {
		s.Object.Status.Attempts++
	}
	s.Running(v1alpha1.ReasonArchiving, r.progress.report(s.Object))
	made := inStore(r, s, stepArchive, r.archiver(s))
	if made == nil {
		return false, nil
	}
	r.settleArchive(s, made)
	return true, nil
}

// archiver returns the work of the archive step. A run that is being stopped
// after an operator went away only looks whether it had succeeded already.
func (r *Reconciler) archiver(s *scope) func(context.Context, *store, job.Request) (job.Result, error) {
	work, owner, uid := r.Job.Archive, client.ObjectKeyFromObject(s.Object), s.Object.UID
	if s.Stopping() {
		work = r.Job.Earlier
	}
	return func(ctx context.Context, store *store, request job.Request) (job.Result, error) {
		last := r.Now()
		request.Progress = func(total, done int) {
			r.progress.set(uid, total, done)
			if now := r.Now(); now.Sub(last) >= time.Second {
				last = now
				r.driver.Wake(owner)
			}
		}
		return work(ctx, store.Store, request)
	}
}

// settleArchive records the outcome of the archive step.
func (r *Reconciler) settleArchive(s *scope, made *run.Ended[job.Result]) {
	defer r.progress.drop(s.Object.UID)
	if made.Err != nil {
		if s.Stopping() {
			s.Decide(s.CancelledOutcome(), r.Now())
			return
		}
		s.Decide(run.Outcome{
			Phase: run.PhaseFailed, Reason: v1alpha1.ReasonFailed,
			Message: "The archive could not be made: " + r.Redactor.String(made.Err.Error()),
		}, r.Now())
		return
	}
	result := made.Value
	if result.Bytes > 0 {
		r.Metrics.archived(s.Object, result.Bytes)
	}
	status := &s.Object.Status
	items := int64(result.Items)
	status.Progress = &v1alpha1.BackupProgress{TotalItems: items, ItemsBackedUp: items}
	status.Warnings, status.Errors = int64(result.Warnings), int64(result.Errors)
	o := run.Outcome{Phase: run.PhaseCompleted, Reason: v1alpha1.ReasonCompleted, Message: count(items, "object") + " in the archive"}
	if result.Errors > 0 {
		o.Phase, o.Reason = run.PhasePartiallyFailed, v1alpha1.ReasonPartiallyFailed
		o.Message += ", " + count(status.Errors, "error") + " (listed in the results file)"
	}
	if result.Warnings > 0 {
		o.Message += ", " + count(status.Warnings, "warning")
	}
	s.Decide(o, result.Completed)
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
