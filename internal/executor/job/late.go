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

// Ended returns what the Job of an attempt came to that ended while nobody followed it; see
// executor.Resumer. It is tried again until ctx ends if the API server is away.
func (e *Executor) Ended(ctx context.Context, call executor.Call, deadline time.Time) (executor.Answer, bool, error) {
	a, ended := e.attempt(ctx, call), false
	err := a.until(ctx, nil, func(ctx context.Context) (_ time.Duration, done bool, err error) {
		ended, err = a.endedBy(ctx, deadline)
		return 0, err == nil, err
	})
	if err != nil {
		return executor.Answer{}, false, a.error(refused(err))
	}
	if !ended {
		return executor.Answer{}, false, a.overdue()
	}
	if a.seen.started {
		if err := a.learnAgain(ctx); err != nil {
			return executor.Answer{}, false, a.error(refused(err))
		}
		a.follow(ctx, a.pod.Name)
	}
	answer, failed := a.result(a.logs.finish(ctx))
	if failed != nil {
		return executor.Answer{}, true, a.error(failed)
	}
	return answer, true, nil
}

// overdue says why an attempt did not end in time, if that can be seen of its pod.
func (a *attempt) overdue() error {
	lost := lostNode(a.pod)
	if lost == "" {
		return nil
	}
	return a.error(&failure{kind: executor.Timeout, text: "did not end before its deadline: " + lost})
}

// unseen says whether the Job of an attempt that is out of time ended within it, and the API
// server could not say so until now. It looks once.
func (a *attempt) unseen(ctx context.Context) bool {
	deadline, _ := ctx.Deadline()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askGrace)
	defer cancel()
	ended, err := a.endedBy(ctx, deadline)
	if err != nil || !ended {
		return false
	}
	return a.learned || !a.seen.started || a.learnAgain(ctx) == nil
}

// endedBy looks whether the Job of the attempt ended by itself until a deadline.
func (a *attempt) endedBy(ctx context.Context, deadline time.Time) (bool, error) {
	jobs, err := a.cluster.jobs(ctx, keyLabel(a.call.Key))
	if err != nil {
		return false, doing("its Job could not be looked for", err)
	}
	for i := range jobs {
		job := &jobs[i]
		if !a.ours(job, a.call) || attemptOf(job) != a.call.Attempt || job.DeletionTimestamp != nil {
			continue
		}
		pod, err := a.cluster.podOf(ctx, job, keyLabel(a.call.Key))
		if err != nil {
			return false, doing("its Job could not be looked at", err)
		}
		a.tried, a.job, a.pod, a.seen = true, job, pod, judge(job, pod)
		at := endOf(job, pod)
		return a.seen.ended() && !at.IsZero() && !at.After(deadline), nil
	}
	return false, nil
}

// endOf returns when a Job ended, as its node or its controller saw it; zero if neither says
// so.
func endOf(job *batchv1.Job, pod *corev1.Pod) time.Time {
	if exit := statusOf(pod).State.Terminated; exit != nil && !exit.FinishedAt.IsZero() {
		return exit.FinishedAt.Time
	}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed, batchv1.JobComplete} {
		if c := condition(job, kind); c != nil {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
