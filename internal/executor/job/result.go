// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// CollectResult returns the result of an attempt whose Job ended while no operator followed it; see
// executor.Resumable. It retries until ctx ends if the API server is unreachable.
func (e *Executor) CollectResult(ctx context.Context, call executor.Call, deadline time.Time) (executor.Answer, bool, error) {
	a, ended := e.newAttempt(ctx, call), false
	err := a.pollUntilDone(ctx, nil, func(ctx context.Context) (_ time.Duration, done bool, err error) {
		ended, err = a.observeEndBeforeDeadline(ctx, deadline)
		return 0, err == nil, err
	})
	if err != nil {
		return executor.Answer{}, false, a.newError(toFailure(err))
	}
	if !ended {
		return executor.Answer{}, false, a.overdueError()
	}
	if a.observed.started {
		if err := a.registerContainerSecretValues(ctx); err != nil {
			return executor.Answer{}, false, a.newError(toFailure(err))
		}
		a.followLogs(ctx, a.pod.Name)
	}
	answer, failed := a.jobResult(a.logs.drainLog(ctx))
	if failed != nil {
		return executor.Answer{}, true, a.newError(failed)
	}
	return answer, true, nil
}

// overdueError returns why an attempt did not finish in time, if its pod shows the reason.
func (a *attempt) overdueError() error {
	lost := lostNodeReason(a.pod)
	if lost == "" {
		return nil
	}
	return a.newError(&failure{kind: executor.Timeout, text: "did not end before its deadline: " + lost})
}

// recheckEndBeforeDeadline reports whether the Job of an attempt that is out of time finished
// before its deadline, and the API server could not say so until now. It checks once.
func (a *attempt) recheckEndBeforeDeadline(ctx context.Context) bool {
	deadline, _ := ctx.Deadline()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalReadTimeout)
	defer cancel()
	ended, err := a.observeEndBeforeDeadline(ctx, deadline)
	if err != nil || !ended {
		return false
	}
	return a.secretsRegistered || !a.observed.started || a.registerContainerSecretValues(ctx) == nil
}

// observeEndBeforeDeadline checks whether the Job of the attempt finished by itself before a
// deadline.
func (a *attempt) observeEndBeforeDeadline(ctx context.Context, deadline time.Time) (bool, error) {
	jobs, err := a.cluster.listJobs(ctx, keyLabelValue(a.call.Key))
	if err != nil {
		return false, newRequestFailure("listing its Jobs failed", err)
	}
	for i := range jobs {
		job := &jobs[i]
		if !a.matchesCall(job, a.call) || attemptNumber(job) != a.call.Attempt || job.DeletionTimestamp != nil {
			continue
		}
		pod, err := a.cluster.findNewestPod(ctx, job, keyLabelValue(a.call.Key))
		if err != nil {
			return false, newRequestFailure("reading its Job failed", err)
		}
		a.mayHaveJob, a.job, a.pod, a.observed = true, job, pod, newJobState(job, pod)
		at := jobEndTime(job, pod)
		return a.observed.hasEnded() && !at.IsZero() && !at.After(deadline), nil
	}
	return false, nil
}

// jobEndTime returns when a Job ended, according to its node or its controller; zero if neither
// recorded it.
func jobEndTime(job *batchv1.Job, pod *corev1.Pod) time.Time {
	if exit := actionContainerStatus(pod).State.Terminated; exit != nil && !exit.FinishedAt.IsZero() {
		return exit.FinishedAt.Time
	}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed, batchv1.JobComplete} {
		if c := findTrueCondition(job, kind); c != nil {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
