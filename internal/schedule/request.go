// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"time"
)

// requestTolerance is how far the clock of a user may be ahead. With more, a request could take the place of
// a run that is due later.
const requestTolerance = time.Minute

// decideRunRequest handles a request for a manual run. A run that is due is created first.
func (d *decider) decideRunRequest() {
	in := d.in
	if in.RunRequest == "" {
		return
	}
	requested, err := time.Parse(time.RFC3339, in.RunRequest)
	switch {
	case err != nil:
		d.refuseRunRequest(ReasonInvalidTime, "%q is not a time in RFC 3339 format; write the current time, for example %s",
			in.RunRequest, formatTime(in.Now))
		return
	case requested.Before(in.Created):
		d.refuseRunRequest(ReasonOutdated, "the request of %s is older than the Schedule, and is ignored", formatTime(requested))
		return
	case d.matchRunRequest(RunName(in.Name, requested)), d.out.Create != nil:
		return
	case in.LastRunRequest.After(requested):
		d.refuseRunRequest(ReasonOutdated, "the request of %s is older than the last one, and is ignored", formatTime(requested))
		return
	}
	name, open := d.newestActiveRun()
	switch {
	case requested.Sub(in.Now) > requestTolerance:
		d.refuseRunRequest(ReasonFutureTime, "the time of the request, %s, is more than %s after that of the operator, %s; check the clocks, and request a run again",
			formatTime(requested), requestTolerance, formatTime(in.Now))
	case in.StartingDeadline > 0 && requested.Add(in.StartingDeadline).Before(in.Now):
		d.refuseRunRequest(ReasonMissedDeadline, "the request of %s is handled at %s, and that is too late: the starting deadline is %s; request a run again",
			formatTime(requested), formatTime(in.Now), in.StartingDeadline)
	case open && in.ConcurrencyPolicy == ForbidConcurrent:
		d.refuseRunRequest(ReasonConcurrencyForbid, "%s has not ended, and concurrencyPolicy is Forbid; request a run again when it has", name)
	default:
		d.out.Create = &RunToCreate{Name: RunName(in.Name, requested), Scheduled: d.newRunTime(), Request: in.RunRequest}
		d.out.RunRequest = &HandledRequest{Value: in.RunRequest, RunName: d.out.Create.Name}
	}
}

// matchRunRequest handles a request for a second that has a run already. It returns false if there is none.
func (d *decider) matchRunRequest(name string) bool {
	for _, run := range d.in.Runs {
		if run.Name != name {
			continue
		}
		d.out.RunRequest = &HandledRequest{Value: d.in.RunRequest, RunName: name}
		if run.Request != d.in.RunRequest {
			d.out.RunRequest.Reason = ReasonRunExists
			d.out.RunRequest.Message = fmt.Sprintf("%s was created for the same second, and counts as the requested one", name)
		}
		return true
	}
	return false
}

// newRunTime returns now, or a later time if a run has it already: a manual run is the newest run.
func (d *decider) newRunTime() time.Time {
	t := d.in.Now
	for _, run := range d.in.Runs {
		t = laterTime(t, run.Scheduled.Add(time.Second))
	}
	return t
}

func (d *decider) refuseRunRequest(reason SkipReason, format string, args ...any) {
	d.out.RunRequest = &HandledRequest{Value: d.in.RunRequest, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
