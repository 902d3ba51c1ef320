// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

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

// deletionAdmissionGrace is the longest time that a DeletionRun waits for its location. It is
// short because what it deletes was not created together with it.
const deletionAdmissionGrace = 5 * time.Second

// admissionTracker remembers when this process first saw each run that waits for admission, the
// last outage that affected each of them, and since when each has needed Plugins that are not
// ready. It is safe for concurrent use; the zero value is empty.
type admissionTracker struct{ firstSeen, outages, pluginOutages sync.Map }

// outage is the period in which the location of a run did not work, as far as the run observed
// it.
type outage struct{ first, last time.Time }

func (a *admissionTracker) forgetRun(uid types.UID) {
	a.firstSeen.Delete(uid)
	a.outages.Delete(uid)
	a.pluginOutages.Delete(uid)
}

// AwaitAdmission makes a run wait for objects that it needs and that may come from the same
// kubectl apply. The wait ends when a watched location or Plugin changes, or when the grace
// period after the creation of the run is over. AwaitAdmission reports whether the run waits; a
// waiting run holds no slot.
func (d *Driver[T]) AwaitAdmission(s *Scope[T], reason string, missing []string) (waiting bool) {
	if len(missing) == 0 {
		return false
	}
	return d.awaitUntil(s, d.admissionDeadline(s.Object, d.Now()), reason, "Waiting until %s for objects that may still be created: %s", missing)
}

// AwaitLocationRecovery makes a run wait while its location does not work, until the grace
// period since the first such problem is over. How long the run has waited for its turn does not
// count, because a transient error must not end the run. AwaitLocationRecovery reports whether
// the run waits; a waiting run holds no slot.
func (d *Driver[T]) AwaitLocationRecovery(s *Scope[T], problems []string) (waiting bool) {
	if len(problems) == 0 {
		return false
	}
	now, uid := d.Now(), s.Object.GetUID()
	met := outage{first: now}
	if known, ok := d.admissions.outages.Load(uid); ok {
		// A gap that is longer than the wait starts a new outage.
		if before, ok := known.(outage); ok && now.Sub(before.last) <= 2*d.AdmissionGrace {
			met = before
		}
	}
	met.last = now
	d.admissions.outages.Store(uid, met)
	return d.awaitUntil(s, met.first.Add(d.AdmissionGrace), v1alpha1.ReasonWaitingForLocation, "Retrying until %s: %s", problems)
}

// awaitUntil makes a run wait without a slot until end. It returns false once end is reached.
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

// AwaitPlugins makes a run of any kind wait for Plugins that are not ready, for example during the
// back-off after crashes, until the grace period since the first such problem is over. How long the
// run has waited for its turn does not count. For Plugins that do not exist yet, AwaitPlugins is
// AwaitAdmission. It does not wait if the plan has other errors.
func (d *Driver[T]) AwaitPlugins(s *Scope[T], plan hook.Plan) (waiting bool) {
	for _, err := range plan.Errors {
		if !slices.Contains(plan.Recoverable, err) {
			return false
		}
	}
	uid := s.Object.GetUID()
	if len(plan.Errors) == 0 {
		d.admissions.pluginOutages.Delete(uid)
		return d.AwaitAdmission(s, v1alpha1.ReasonWaitingForPlugins, plan.Recoverable)
	}
	began, _ := d.admissions.pluginOutages.LoadOrStore(uid, d.Now())
	since, _ := began.(time.Time) // nothing else is stored
	return d.awaitUntil(s, since.Add(d.AdmissionGrace), v1alpha1.ReasonWaitingForPlugins, "Waiting until %s for Plugins that are not ready: %s", plan.Recoverable)
}

// admissionDeadline returns when the grace period of a run ends. It starts at the creation time,
// which the API server recorded. If the two clocks differ, no run waits longer than the grace
// period.
func (d *Driver[T]) admissionDeadline(object T, now time.Time) time.Time {
	grace := d.AdmissionGrace
	if d.Kind.HasSingleHookPoint() {
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
