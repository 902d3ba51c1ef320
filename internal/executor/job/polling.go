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
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// stuckTimeout limits how long the container may be kept from starting by something that could pass
// but mostly does not: an image that cannot be pulled, an exhausted quota. It also limits how long
// the API server may deny reads of the Job: its role binding may be recreated.
const stuckTimeout = time.Minute

// pollUntilDone calls look until it is done: whenever something changes, after the delay that look
// returns (0: only after a change), and with growing delays if requests to the API server fail. Its
// error is that of ctx, or an error of look that cannot be retried, or not any longer.
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
			err = rawclient.Sleep(ctx, delay)
		}
		if err != nil {
			return err
		}
	}
}

// failureStreak is a series of consecutive failures.
type failureStreak struct {
	failures int
	// limit is how long such failures are tolerated, counted from since; 0 is without limit.
	limit time.Duration
	since time.Time
}

// nextRetryDelay returns the delay before a retry after err, and false if err is not retried.
func (a *attempt) nextRetryDelay(s *failureStreak, err error) (time.Duration, bool) {
	s.failures++
	delay, retry := rawclient.RetryDelay(err, s.failures)
	limit, passes := a.retryLimitFor(err)
	switch {
	case !retry && !passes:
		return 0, false
	case !retry:
		delay = rawclient.BackoffDelay(s.failures)
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
		a.log.Info("A request to the API server failed; retrying",
			"reason", executor.OneLine(a.Redactor.String(toFailure(err).text)))
	}
	return delay, true
}

// retryLimitFor returns how long err is tolerated, 0 for no limit. passes is true if err may be
// transient although it says that the request was wrong.
func (a *attempt) retryLimitFor(err error) (limit time.Duration, passes bool) {
	f, status := (*failure)(nil), apierrors.APIStatus(nil)
	creating := errors.As(err, &f) && f.isCreation
	switch {
	case isAccessDenied(err):
		return min(stuckTimeout, a.StartTimeout), !creating
	case !creating || !errors.As(err, &status) || apierrors.IsTooManyRequests(err):
		return 0, false
	}
	// The API server responds, and something behind it rejects the request: a webhook, or a quota
	// that was changed concurrently.
	return a.StartTimeout, apierrors.IsConflict(err)
}

// isAccessDenied reports whether the API server denied access.
func isAccessDenied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// awaitChange waits for a change, for the given time (0: without limit), or for the end of ctx, and
// returns the error of ctx in that case.
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

// enforceStartTimeout gives up on a container that does not start. Otherwise it returns when to
// check again.
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
		limit = first // check then whether its pod is rejected
	case a.pod == nil && !now.Before(first):
		if message := a.cluster.newestWarning(ctx, a.job.UID, "FailedCreate"); message != "" {
			a.observed.failure = &failure{kind: executor.Unreachable, text: "its pod was rejected: " + message}
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

// blockedReason returns what keeps the container from starting, as far as known.
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

// newRequestFailure returns a failure that starts with what. Users see the message of the API
// server, not the request.
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

// newCreateFailure is newRequestFailure for an object without which nothing can run.
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

// withoutJobNames removes the names of the Job and its pod from a text; they differ in each
// attempt.
func (a *attempt) withoutJobNames(text string) string {
	name := jobNameForCall(a.call)
	if a.job != nil {
		name = a.job.Name
	}
	return regexp.MustCompile(regexp.QuoteMeta(name)+`(-[a-z0-9]{5}\b)?`).ReplaceAllString(text, "(its Job)")
}
