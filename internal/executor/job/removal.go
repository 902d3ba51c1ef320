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
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

const (
	// StopGrace is how long to retry the deletion of a Job, and to wait for a Job that is deleted
	// because ctx ended: slightly longer than its container may take to terminate.
	StopGrace = podTerminationGrace + 5*time.Second
	// finalReadTimeout is how long to try to find out why a Job has not started in time.
	finalReadTimeout = 2 * time.Second
)

// isOperatorStopping reports whether ctx was canceled because the operator stops, and not with a
// cause; see the package comment.
func isOperatorStopping(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.Canceled) && errors.Is(context.Cause(ctx), context.Canceled)
}

// handleContextEnd ends an attempt whose ctx ended before the Job did.
func (a *attempt) handleContextEnd(ctx context.Context) *failure {
	if isOperatorStopping(ctx) {
		return &failure{kind: executor.Interrupted, text: "was interrupted before it answered", err: ctx.Err()}
	}
	failed := &failure{kind: executor.Interrupted, text: "was canceled before it answered", err: ctx.Err()}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		failed.kind = executor.Timeout
		failed.text = "did not end before its deadline: " + timeoutReason(a.pod)
		if !a.observed.started {
			failed.text = "did not start before its deadline: " + a.blockedReasonWithGrace(ctx)
		}
	}
	// Even if nothing was created: the Job of a previous operator may not have been found yet.
	a.mayHaveJob = true
	a.removeJobsBestEffort(ctx, true)
	return failed
}

// blockedReasonWithGrace is blockedReason with a ctx that has not ended.
func (a *attempt) blockedReasonWithGrace(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalReadTimeout)
	defer cancel()
	return a.blockedReason(ctx)
}

// Stop ends and removes what is left of the key of a call, in this attempt or an earlier one, and
// waits until it is removed. It is for a run whose answer is recorded, or that is abandoned without
// another Execute. It must not be called while Execute runs for the same key. Every error is an
// *executor.Error; what could not be removed ends at its deadline.
func (e *Executor) Stop(ctx context.Context, call executor.Call) error {
	a := e.newAttempt(ctx, call)
	if err := a.removeJobsAndWait(ctx, true); err != nil {
		return a.newError(&failure{kind: executor.Unreachable, text: "what it left running could not be stopped: " + a.leftoverReason(ctx, err), err: err})
	}
	return nil
}

// removeJobsBestEffort deletes what the attempt created, and what earlier attempts left. If any of
// it may still run, it waits until that has ended. It also works after ctx has ended.
func (a *attempt) removeJobsBestEffort(ctx context.Context, runs bool) {
	if !a.mayHaveJob {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopGrace)
	defer cancel()
	if err := a.removeJobsAndWait(ctx, runs); err != nil {
		a.log.Info("The Job was not removed in time; Kubernetes ends it at its deadline and removes it later",
			"reason", executor.OneLine(a.Redactor.String(a.leftoverReason(ctx, err))))
	}
}

// removeJobsAndWait deletes everything of the key, and waits until it is removed if it may still
// run. It also retries if access is denied: permissions and credentials may come back, and until
// then the Job would run beside whatever follows.
func (a *attempt) removeJobsAndWait(ctx context.Context, runs bool) error {
	changed, stop := a.cluster.watchChanges(ctx, keyLabelValue(a.call.Key))
	defer stop()
	denials := 0
	return a.pollUntilDone(ctx, changed, func(ctx context.Context) (time.Duration, bool, error) {
		left, err := a.removeJobs(ctx, runs)
		if a.deniedError = nil; apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			denials++
			a.deniedError = err
			return rawclient.BackoffDelay(denials), false, nil
		}
		return 0, err == nil && (left == 0 || !runs), err
	})
}

// leftoverReason returns why something remains after removeJobsAndWait failed with err.
func (a *attempt) leftoverReason(ctx context.Context, err error) string {
	switch {
	case ctx.Err() == nil:
		return toFailure(err).text
	case a.apiError != nil:
		return toFailure(a.apiError).text
	case a.deniedError != nil:
		return toFailure(a.deniedError).text
	}
	return appendReason("its pod has not terminated", lostNodeReason(a.pod))
}

// appendReason appends a reason to a text, if there is one.
func appendReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// observePod reads the pod of a Job that is being deleted, for the message in case the pod does not
// terminate.
func (a *attempt) observePod(ctx context.Context, job *batchv1.Job) {
	if pod, err := a.cluster.findNewestPod(ctx, job, keyLabelValue(a.call.Key)); err == nil {
		a.pod = pod
	}
}

// removeJobs deletes everything of the key except what belongs to a later attempt, and returns the
// number of Jobs that existed.
func (a *attempt) removeJobs(ctx context.Context, runs bool) (left int, err error) {
	jobs, err := a.cluster.listJobs(ctx, keyLabelValue(a.call.Key))
	if err != nil {
		return 0, newRequestFailure("its Jobs could not be listed", err)
	}
	for i := range jobs {
		if !a.matchesCall(&jobs[i], a.call) || attemptNumber(&jobs[i]) > a.call.Attempt {
			continue
		}
		left++
		if jobs[i].DeletionTimestamp != nil {
			a.observePod(ctx, &jobs[i])
			continue
		}
		if err := a.removeJob(ctx, &jobs[i], runs); err != nil {
			return left, err
		}
	}
	return left, nil
}

func (a *attempt) removeJob(ctx context.Context, job *batchv1.Job, runs bool) error {
	// The garbage collector would delete the files, too, but only at some later time.
	if err := a.removeFilesSecret(ctx, filesSecretName(job)); err != nil {
		return newRequestFailure("its files could not be deleted", err)
	}
	if err := a.cluster.deleteJob(ctx, job, runs); err != nil {
		return newRequestFailure("its Job could not be deleted", err)
	}
	return nil
}

func (a *attempt) removeFilesSecret(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	secret, err := a.cluster.getSecret(ctx, name)
	if err != nil || secret == nil || !a.matchesCall(secret, a.call) {
		return err
	}
	return a.cluster.deleteSecret(ctx, secret)
}
