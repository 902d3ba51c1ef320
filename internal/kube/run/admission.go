// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// deletionAdmissionGrace is how long a DeletionRun waits at most for its location: what it deletes
// was not created together with it.
const deletionAdmissionGrace = 5 * time.Second

// admissionTracker remembers since when this process knows of runs that wait for their
// admission, and the last outage that each of them met. It is safe for concurrent use; the
// zero one is empty.
type admissionTracker struct{ firstSeen, outages sync.Map }

// outage is from when to when the location of a run did not work, as far as the run met that.
type outage struct{ first, last time.Time }

func (a *admissionTracker) forgetRun(uid types.UID) {
	a.firstSeen.Delete(uid)
	a.outages.Delete(uid)
}

// AwaitAdmission makes a run wait for what it needs and what may come from the same kubectl
// apply, as long as the grace of its creation lasts. It reports whether the run waits; it
// holds no slot then. The watches of locations and Plugins end the wait.
func (d *Driver[T]) AwaitAdmission(s *Scope[T], reason string, missing []string) (waiting bool) {
	if len(missing) == 0 {
		return false
	}
	return d.awaitUntil(s, d.admissionDeadline(s.Object, d.Now()), reason, "Waiting until %s for what may still be created: %s", missing)
}

// AwaitLocationRecovery makes a run wait whose location does not work, as long as the grace since the
// first such problem lasts, however long the run has waited for its turn: the error of a moment
// must not end it. It reports whether the run waits; it holds no slot then.
func (d *Driver[T]) AwaitLocationRecovery(s *Scope[T], problems []string) (waiting bool) {
	if len(problems) == 0 {
		return false
	}
	now, uid := d.Now(), s.Object.GetUID()
	met := outage{first: now}
	if known, ok := d.admissions.outages.Load(uid); ok {
		// After a pause that is longer than the wait it is another outage.
		if before, ok := known.(outage); ok && now.Sub(before.last) <= 2*d.AdmissionGrace {
			met = before
		}
	}
	met.last = now
	d.admissions.outages.Store(uid, met)
	return d.awaitUntil(s, met.first.Add(d.AdmissionGrace), v1alpha1.ReasonWaitingForLocation, "Retrying until %s: %s", problems)
}

// awaitUntil makes a run wait without a slot, unless the end is reached.
func (d *Driver[T]) awaitUntil(s *Scope[T], end time.Time, reason, format string, problems []string) (waiting bool) {
	left := end.Sub(d.Now())
	if left <= 0 {
		return false
	}
	d.ReleaseSlot(s)
	s.MarkWaiting(reason, fmt.Sprintf(format, end.UTC().Format("15:04:05 UTC"), strings.Join(problems, "; ")))
	s.RequeueAfter(left)
	return true
}

// AwaitPlugins is AwaitAdmission for Plugins: those that are not ready and those that are
// not there yet. A plan with other errors is not waited for.
func (d *Driver[T]) AwaitPlugins(s *Scope[T], plan hook.Plan) (waiting bool) {
	for _, err := range plan.Errors {
		if !slices.Contains(plan.Recoverable, err) {
			return false
		}
	}
	return d.AwaitAdmission(s, v1alpha1.ReasonWaitingForPlugins, plan.Recoverable)
}

// admissionDeadline returns when the grace of a run ends. The clock of the API server counts, but if
// the two clocks differ, no run waits longer than the grace.
func (d *Driver[T]) admissionDeadline(object T, now time.Time) time.Time {
	grace := d.AdmissionGrace
	if d.Kind.SinglePoint != "" {
		grace = min(grace, deletionAdmissionGrace)
	}
	since := now
	if known, there := d.admissions.firstSeen.LoadOrStore(object.GetUID(), now); there {
		if at, ok := known.(time.Time); ok {
			since = at
		}
	}
	if created := object.GetCreationTimestamp().Time; created.Before(since) {
		since = created
	}
	return since.Add(grace)
}
