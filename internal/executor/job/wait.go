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

// stuckAfter is how long something may keep the container from starting that can pass,
// and mostly does not: an image that cannot be pulled, a quota that is used up. So long may
// the API server refuse to say how a Job is, too: its role binding may be made anew.
const stuckAfter = time.Minute

// until calls look until it is done: whenever something changed, after the time it asks
// for (0: only then), and, if the API server could not be asked, with growing pauses.
// Its error is that of ctx, or one of look that trying again does not help, or not any more.
func (a *attempt) until(
	ctx context.Context, changed <-chan struct{}, look func(context.Context) (again time.Duration, done bool, err error),
) error {
	for failing := (streak{}); ; {
		again, done, err := look(ctx)
		if done {
			a.unread = nil
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if a.unread = err; err == nil {
			failing = streak{}
			err = pause(ctx, changed, again)
		} else {
			delay, retry := a.retry(&failing, err)
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

// streak is a row of failures.
type streak struct {
	failures int
	// limit is how long the last of them are put up with, since when; 0 is for ever.
	limit time.Duration
	since time.Time
}

// retry says whether what failed with err is tried again, and after which time.
func (a *attempt) retry(s *streak, err error) (time.Duration, bool) {
	s.failures = min(s.failures+1, maxFailures)
	delay, retry := request.RetryDelay(err, s.failures)
	limit, passes := a.limit(err)
	switch {
	case !retry && !passes:
		return 0, false
	case !retry:
		delay = request.Delay(s.failures)
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
			"reason", executor.OneLine(a.Redactor.String(refused(err).text)))
	}
	return delay, true
}

// limit returns for how long err is put up with, 0 for ever, and whether it passes although
// it says that the request was wrong.
func (a *attempt) limit(err error) (limit time.Duration, passes bool) {
	f, status := (*failure)(nil), apierrors.APIStatus(nil)
	creating := errors.As(err, &f) && f.creating
	switch {
	case denied(err):
		return min(stuckAfter, a.StartTimeout), !creating
	case !creating || !errors.As(err, &status) || apierrors.IsTooManyRequests(err):
		return 0, false
	}
	// The API server is there, and something behind it refuses: a webhook, a quota that
	// somebody else changed at the same time.
	return a.StartTimeout, apierrors.IsConflict(err)
}

// denied says whether the API server says that it is a matter of rights.
func denied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// pause waits for a change, the time (0: for ever) or the end of ctx, whose error it
// returns then.
func pause(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
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

// patience gives up on a container that does not start, or returns after which time it
// is to be looked at again.
func (a *attempt) patience(ctx context.Context) time.Duration {
	now := time.Now()
	if a.seen.started {
		return 0
	}
	if a.began.IsZero() {
		a.began = now
	}
	if a.seen.stuck == "" {
		a.stuck = time.Time{}
	} else if a.stuck.IsZero() {
		a.stuck = now
	}
	limit, first := a.began.Add(a.StartTimeout), a.began.Add(stuckAfter)
	switch {
	case a.seen.stuck != "" && a.stuck.Add(stuckAfter).Before(limit):
		limit = a.stuck.Add(stuckAfter)
	case a.pod == nil && now.Before(first) && first.Before(limit):
		limit = first // to see then whether its pod is refused
	case a.pod == nil && !now.Before(first):
		if message := a.cluster.warning(ctx, a.job.UID, "FailedCreate"); message != "" {
			a.seen.lost = &failure{kind: executor.Unreachable, text: "its pod was refused: " + message}
			return 0
		}
	}
	if now.Before(limit) {
		return limit.Sub(now)
	}
	text := a.seen.stuck
	if text == "" {
		text = fmt.Sprintf("did not start within %s: %s", a.StartTimeout, a.obstacle(ctx))
	}
	a.seen.lost = &failure{kind: executor.Unreachable, text: text}
	return 0
}

// obstacle says what keeps the container from starting, as far as it is known.
func (a *attempt) obstacle(ctx context.Context) string {
	if a.seen.stuck != "" {
		return a.seen.stuck
	}
	if a.unread != nil {
		return refused(a.unread).text
	}
	if a.job == nil {
		if a.seen.waiting != "" {
			return a.seen.waiting
		}
		return "its Job could not be created in time"
	}
	uid := a.job.UID
	if a.pod != nil {
		uid = a.pod.UID
	}
	if message := a.cluster.warning(ctx, uid, ""); message != "" {
		return a.seen.waiting + " (" + message + ")"
	}
	return a.seen.waiting
}

// doing says what could not be done. What a person is told of err is what the API
// server said, not how it was asked.
func doing(what string, err error) *failure {
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

// creating is doing for what has to be created before anything can run.
func creating(what string, err error) error {
	f := doing(what, err)
	f.creating = true
	return f
}

// refused returns err as a failure.
func refused(err error) *failure {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f
	}
	return &failure{kind: executor.Unreachable, text: err.Error(), err: err}
}

func exists(err error) bool { return apierrors.IsAlreadyExists(err) }

// nameless returns a text without the names of the Job and its pod, which are others
// in each attempt.
func (a *attempt) nameless(text string) string {
	name := jobName(a.call)
	if a.job != nil {
		name = a.job.Name
	}
	return regexp.MustCompile(regexp.QuoteMeta(name)+`(-[a-z0-9]{5}\b)?`).ReplaceAllString(text, "(its Job)")
}
