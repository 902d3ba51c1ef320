// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/request"
)

// stuckTimeout is how long something may keep the container from starting that can pass,
// and mostly does not: an image that cannot be pulled, a quota that is used up. So long may
// the API server refuse to say how a Job is, too: its role binding may be made anew.
const stuckTimeout = time.Minute

// pollUntilDone calls look until it is done: whenever something changed, after the time it asks
// for (0: only then), and, if the API server could not be asked, with growing pauses.
// Its error is that of ctx, or one of look that trying again does not help, or not any more.
func (a *attempt) pollUntilDone(
	ctx context.Context, changed <-chan struct{}, look func(context.Context) (again time.Duration, done bool, err error),
) error {
	for failing := (failureStreak{}); ; {
		again, done, err := look(ctx)
		if done {
			a.apiError = nil
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if a.apiError = err; err == nil {
			failing = failureStreak{}
			err = awaitChange(ctx, changed, again)
		} else {
			delay, retry := a.nextRetryDelay(&failing, err)
			if !retry {
				return err
			}
			err = request.Sleep(ctx, delay)
		}
		if err != nil {
			return err
		}
	}
}

// failureStreak is a row of failures.
type failureStreak struct {
	failures int
	// limit is how long the last of them are put up with, since when; 0 is for ever.
	limit time.Duration
	since time.Time
}

// nextRetryDelay says whether what failed with err is tried again, and after which time.
func (a *attempt) nextRetryDelay(s *failureStreak, err error) (time.Duration, bool) {
	s.failures = min(s.failures+1, maxBackoffFailures)
	delay, retry := request.RetryDelay(err, s.failures)
	limit, passes := a.retryLimitFor(err)
	switch {
	case !retry && !passes:
		return 0, false
	case !retry:
		delay = request.BackoffDelay(s.failures)
	}
	if limit != s.limit {
		s.limit, s.since = limit, time.Now()
	}
	if limit > 0 {
		left := limit - time.Since(s.since)
		if left <= 0 {
			return 0, false
		}
		delay = min(delay, left)
	}
	if s.failures == 1 {
		a.log.Info("A request to the API server failed; it is tried again",
			"reason", executor.OneLine(a.Redactor.String(toFailure(err).text)))
	}
	return delay, true
}

// retryLimitFor returns for how long err is put up with, 0 for ever, and whether it passes although
// it says that the request was wrong.
func (a *attempt) retryLimitFor(err error) (limit time.Duration, passes bool) {
	f, status := (*failure)(nil), apierrors.APIStatus(nil)
	creating := errors.As(err, &f) && f.isCreation
	switch {
	case isAccessDenied(err):
		return min(stuckTimeout, a.StartTimeout), !creating
	case !creating || !errors.As(err, &status) || apierrors.IsTooManyRequests(err):
		return 0, false
	}
	// The API server is there, and something behind it refuses: a webhook, a quota that
	// somebody else changed at the same time.
	return a.StartTimeout, apierrors.IsConflict(err)
}

// isAccessDenied says whether the API server says that it is a matter of rights.
func isAccessDenied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// awaitChange waits for a change, the time (0: for ever) or the end of ctx, whose error it
// returns then.
func awaitChange(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-changed:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// enforceStartTimeout gives up on a container that does not start, or returns after which time it
// is to be looked at again.
func (a *attempt) enforceStartTimeout(ctx context.Context) time.Duration {
	now := time.Now()
	if a.observed.started {
		return 0
	}
	if a.waitingSince.IsZero() {
		a.waitingSince = now
	}
	if a.observed.stuckReason == "" {
		a.stuckSince = time.Time{}
	} else if a.stuckSince.IsZero() {
		a.stuckSince = now
	}
	limit, first := a.waitingSince.Add(a.StartTimeout), a.waitingSince.Add(stuckTimeout)
	switch {
	case a.observed.stuckReason != "" && a.stuckSince.Add(stuckTimeout).Before(limit):
		limit = a.stuckSince.Add(stuckTimeout)
	case a.pod == nil && now.Before(first) && first.Before(limit):
		limit = first // to see then whether its pod is refused
	case a.pod == nil && !now.Before(first):
		if message := a.cluster.newestWarning(ctx, a.job.UID, "FailedCreate"); message != "" {
			a.observed.failure = &failure{kind: executor.Unreachable, text: "its pod was refused: " + message}
			return 0
		}
	}
	if now.Before(limit) {
		return limit.Sub(now)
	}
	text := a.observed.stuckReason
	if text == "" {
		text = fmt.Sprintf("did not start within %s: %s", a.StartTimeout, a.blockedReason(ctx))
	}
	a.observed.failure = &failure{kind: executor.Unreachable, text: text}
	return 0
}

// blockedReason says what keeps the container from starting, as far as it is known.
func (a *attempt) blockedReason(ctx context.Context) string {
	if a.observed.stuckReason != "" {
		return a.observed.stuckReason
	}
	if a.apiError != nil {
		return toFailure(a.apiError).text
	}
	if a.job == nil {
		if a.observed.waitingReason != "" {
			return a.observed.waitingReason
		}
		return "its Job could not be created in time"
	}
	uid := a.job.UID
	if a.pod != nil {
		uid = a.pod.UID
	}
	if message := a.cluster.newestWarning(ctx, uid, ""); message != "" {
		return a.observed.waitingReason + " (" + message + ")"
	}
	return a.observed.waitingReason
}

// newRequestFailure says what could not be done. What a person is told of err is what the API
// server said, not how it was asked.
func newRequestFailure(what string, err error) *failure {
	kind := executor.Unreachable
	text := err.Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		text = status.Status().Message
	}
	if apierrors.IsInvalid(err) {
		kind = executor.Invalid
	}
	return &failure{kind: kind, text: what + ": " + text, err: err}
}

// newCreateFailure is doing for what has to be created before anything can run.
func newCreateFailure(what string, err error) error {
	f := newRequestFailure(what, err)
	f.isCreation = true
	return f
}

// toFailure returns err as a failure.
func toFailure(err error) *failure {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f
	}
	return &failure{kind: executor.Unreachable, text: err.Error(), err: err}
}

func isAlreadyExists(err error) bool { return apierrors.IsAlreadyExists(err) }

// withoutJobNames returns a text without the names of the Job and its pod, which are others
// in each attempt.
func (a *attempt) withoutJobNames(text string) string {
	name := jobNameForCall(a.call)
	if a.job != nil {
		name = a.job.Name
	}
	return regexp.MustCompile(regexp.QuoteMeta(name)+`(-[a-z0-9]{5}\b)?`).ReplaceAllString(text, "(its Job)")
}
