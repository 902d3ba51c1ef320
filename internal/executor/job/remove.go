// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/request"
)

const (
	// StopGrace is how long it is tried to delete a Job, and waited for one that is deleted
	// because ctx has ended: a little longer than its container may take to end.
	StopGrace = podGrace + 5*time.Second
	// askGrace is how long it is tried to find out why a Job has not started in time.
	askGrace = 2 * time.Second
)

// operatorEnds says whether ctx was cancelled because the operator ends, and not by
// somebody who gave a cause; see the package comment.
func operatorEnds(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.Canceled) && errors.Is(context.Cause(ctx), context.Canceled)
}

// leave ends an attempt whose ctx has ended before the Job did.
func (a *attempt) leave(ctx context.Context) *failure {
	if operatorEnds(ctx) {
		return &failure{kind: executor.Interrupted, text: "was interrupted before it answered", err: ctx.Err()}
	}
	failed := &failure{kind: executor.Interrupted, text: "was cancelled before it answered", err: ctx.Err()}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		failed.kind = executor.Timeout
		failed.text = "did not end before its deadline: " + delay(a.pod)
		if !a.seen.started {
			failed.text = "did not start before its deadline: " + a.obstacleWithin(ctx)
		}
	}
	// Also if nothing was created: a Job of an operator before this one may not have been
	// found yet.
	a.tried = true
	a.dispose(ctx, true)
	return failed
}

// obstacleWithin is obstacle with a ctx that has not ended.
func (a *attempt) obstacleWithin(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askGrace)
	defer cancel()
	return a.obstacle(ctx)
}

// Stop ends and removes what is left under the key of a call, in this attempt or one before
// it, and waits until it is gone: for a run whose answer is recorded, or that is given up
// without another Execute. It must not be called while Execute runs for the same key.
// Every error is an *executor.Error; what could not be removed then ends at its
// deadline.
func (e *Executor) Stop(ctx context.Context, call executor.Call) error {
	a := e.attempt(ctx, call)
	if err := a.clear(ctx, true); err != nil {
		return a.error(&failure{kind: executor.Unreachable, text: "what it left running could not be ended: " + a.left(ctx, err), err: err})
	}
	return nil
}

// dispose deletes what the attempt made, or found of attempts before it. If something
// of it may still run, it waits until that has ended, too. That ctx has ended is no
// obstacle.
func (a *attempt) dispose(ctx context.Context, runs bool) {
	if !a.tried {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopGrace)
	defer cancel()
	if err := a.clear(ctx, runs); err != nil {
		a.log.Info("The Job was not removed in time; Kubernetes ends it at its deadline and removes it later",
			"reason", executor.OneLine(a.Redactor.String(a.left(ctx, err))))
	}
}

// clear deletes everything of the key, and waits until it is gone if it may still run. That it
// may not is tried again as well: rights and credentials come back, and until then the Job runs
// beside what is done next.
func (a *attempt) clear(ctx context.Context, runs bool) error {
	changed, stop := a.cluster.changes(ctx, keyLabel(a.call.Key))
	defer stop()
	denials := 0
	return a.until(ctx, changed, func(ctx context.Context) (time.Duration, bool, error) {
		left, err := a.remove(ctx, runs)
		if a.denied = nil; apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			denials = min(denials+1, maxFailures)
			a.denied = err
			return request.Delay(denials), false, nil
		}
		return 0, err == nil && (left == 0 || !runs), err
	})
}

// left says why something is left after clear failed with err.
func (a *attempt) left(ctx context.Context, err error) string {
	switch {
	case ctx.Err() == nil:
		return refused(err).text
	case a.unread != nil:
		return refused(a.unread).text
	case a.denied != nil:
		return refused(a.denied).text
	}
	return because("its pod has not ended", lostNode(a.pod))
}

// because puts a reason behind a text, if there is one.
func because(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// watchEnd sees how the pod of a Job is that is being deleted, for what is said if that does
// not end.
func (a *attempt) watchEnd(ctx context.Context, job *batchv1.Job) {
	if pod, err := a.cluster.podOf(ctx, job, keyLabel(a.call.Key)); err == nil {
		a.pod = pod
	}
}

// remove has everything deleted but what belongs to a later attempt, and returns how many
// Jobs there were.
func (a *attempt) remove(ctx context.Context, runs bool) (left int, err error) {
	jobs, err := a.cluster.jobs(ctx, keyLabel(a.call.Key))
	if err != nil {
		return 0, doing("its Jobs could not be listed", err)
	}
	for i := range jobs {
		if !a.ours(&jobs[i], a.call) || attemptOf(&jobs[i]) > a.call.Attempt {
			continue
		}
		left++
		if jobs[i].DeletionTimestamp != nil {
			a.watchEnd(ctx, &jobs[i])
			continue
		}
		if err := a.removeJob(ctx, &jobs[i], runs); err != nil {
			return left, err
		}
	}
	return left, nil
}

func (a *attempt) removeJob(ctx context.Context, job *batchv1.Job, runs bool) error {
	// The garbage collector would remove the files, too, but at some time.
	if err := a.removeFiles(ctx, filesOf(job)); err != nil {
		return doing("its files could not be deleted", err)
	}
	if err := a.cluster.deleteJob(ctx, job, runs); err != nil {
		return doing("its Job could not be deleted", err)
	}
	return nil
}

func (a *attempt) removeFiles(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	secret, err := a.cluster.secret(ctx, name)
	if err != nil || secret == nil || !a.ours(secret, a.call) {
		return err
	}
	return a.cluster.deleteSecret(ctx, secret)
}
