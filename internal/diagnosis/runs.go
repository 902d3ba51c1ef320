// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const (
	// waitingTime is how long a run may wait before it starts; for what is missing, the operator waits two minutes.
	waitingTime = 10 * time.Minute
	// defaultRunTimeout is the default of the operator's flag --default-run-timeout.
	defaultRunTimeout = 24 * time.Hour
	// cleanupTime is how long clean-up may be owed after a run; a failed action is retried at least every five minutes.
	cleanupTime = 15 * time.Minute
	// retryingTime and minFailures are from when on a hook that is being retried is reported.
	retryingTime = 15 * time.Minute
	minFailures  = 2
	// terminatingTime is how long the deletion of an object may take before it is reported.
	terminatingTime = 15 * time.Minute
)

// run is a Backup, Restore or DeletionRun.
type run interface {
	client.Object
	Run() *v1alpha1.RunStatus
	GetPhase() v1alpha1.RunPhase
	RunTimeout() time.Duration
}

// namedRun is a run with its kind.
type namedRun struct {
	run

	kind string
}

// String returns the kind and name.
func (n namedRun) String() string { return n.kind + " " + n.GetName() }

// readRuns returns all runs that were read. For kinds that could not be read, there is a finding.
func readRuns(s *Snapshot, r *report) (runs []namedRun, counts string) {
	var texts []string
	if !r.addUnread(s.Backups.Err, "list backups") {
		for i := range s.Backups.Value.Items {
			runs = append(runs, namedRun{&s.Backups.Value.Items[i], "Backup"})
		}
		texts = append(texts, countOf(len(s.Backups.Value.Items), "Backup"))
	}
	if !r.addUnread(s.Restores.Err, "list restores") {
		for i := range s.Restores.Value.Items {
			runs = append(runs, namedRun{&s.Restores.Value.Items[i], "Restore"})
		}
		texts = append(texts, countOf(len(s.Restores.Value.Items), "Restore"))
	}
	if !r.addUnread(s.DeletionRuns.Err, "list deletionruns") {
		for i := range s.DeletionRuns.Value.Items {
			runs = append(runs, namedRun{&s.DeletionRuns.Value.Items[i], "DeletionRun"})
		}
		texts = append(texts, countOf(len(s.DeletionRuns.Value.Items), "DeletionRun"))
	}
	return runs, strings.Join(texts, ", ")
}

// checkRuns checks that runs start and end in time.
func checkRuns(s *Snapshot, r *report) {
	runs, counts := readRuns(s, r)
	for _, o := range runs {
		if o.GetDeletionTimestamp().IsZero() {
			checkRun(s, r, o)
		}
	}
	r.summary = counts + "; none is stuck"
}

// checkRun checks one run.
func checkRun(s *Snapshot, r *report, o namedRun) {
	status := o.Run()
	if b, ok := o.run.(*v1alpha1.Backup); ok && meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionDataAvailable) {
		r.addFinding(Warning, "check what deleted it in location "+b.Location(), "the stored data of %s is missing", o)
	}
	age := s.timeSince(o.GetCreationTimestamp().Time)
	succeeded := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSucceeded)
	switch {
	case isUnobserved(s, o, status.ObservedGeneration):
		r.addFinding(Error, operatorInactive, "%s has existed for %s, and the operator does not process it", o, age)
	case succeeded == nil || succeeded.Status != metav1.ConditionUnknown: // its outcome is final, or it is new
	case status.StartTimestamp == nil && age > waitingTime:
		r.addFinding(Warning, seeTroubleshooting, "%s has waited for %s: %s", o, age, status.Message)
	case status.StartTimestamp != nil:
		checkDeadline(s, r, o)
	}
}

// checkDeadline checks that a run in progress is not too slow.
func checkDeadline(s *Snapshot, r *report, o namedRun) {
	elapsed, timeout := s.timeSince(o.Run().StartTimestamp.Time), o.RunTimeout()
	switch {
	case timeout > 0 && elapsed > timeout+observationTime:
		r.addFinding(Error, operatorInactive, "%s has been %s for %s, although its timeout is %s", o, o.GetPhase(), elapsed, timeout)
	case timeout > 0 && elapsed > timeout/5*4:
		r.addFinding(Warning, "increase its spec.timeouts.run, or cancel it", "%s has been %s for %s, and fails after %s: %s", o, o.GetPhase(), elapsed, timeout, o.Run().Message)
	case timeout == 0 && elapsed > defaultRunTimeout:
		r.addFinding(Warning, seeTroubleshooting, "%s has been %s for %s: %s", o, o.GetPhase(), elapsed, o.Run().Message)
	}
}

// checkCleanup checks that nothing stays frozen, stopped or locked after a run.
func checkCleanup(s *Snapshot, r *report) {
	runs, _ := readRuns(s, r)
	owed := 0
	for _, o := range runs {
		c := meta.FindStatusCondition(o.Run().Conditions, v1alpha1.ConditionCleanupOwed)
		if c == nil || c.Status != metav1.ConditionTrue {
			continue
		}
		owed++
		ended := o.Run().CompletionTimestamp
		switch {
		case c.Reason == v1alpha1.ReasonCleanupOverdue || c.Reason == v1alpha1.ReasonCleanupLost:
			r.addFinding(Error, seeCleanupOwed, "%s owes clean-up (%s): %s", o, c.Reason, c.Message)
		case ended != nil && s.timeSince(ended.Time) > cleanupTime:
			r.addFinding(Warning, seeCleanupOwed, "%s has owed clean-up for %s: %s", o, s.timeSince(ended.Time), c.Message)
		}
	}
	r.summary = "no run owes clean-up"
	if owed > 0 {
		r.summary = countOf(owed, "run") + " in progress with clean-up to do, none overdue"
	}
}

// checkHooks checks that hooks are not retried for long.
func checkHooks(s *Snapshot, r *report) {
	if r.addUnread(s.HookRuns.Err, "list hookruns") {
		return
	}
	for i := range s.HookRuns.Value.Items {
		h := &s.HookRuns.Value.Items[i]
		started := h.Status.StartTimestamp
		if started == nil || h.Status.CompletionTimestamp != nil || h.Status.Failures < minFailures || s.timeSince(started.Time) < retryingTime {
			continue
		}
		action := "fix the cause, or cancel the run"
		if h.Spec.Owed {
			action = "fix the cause; " + seeCleanupOwed
		}
		r.addFinding(Warning, action, "HookRun %s (%s %s of %s %s) has failed %d times in %s: %s", h.Name, h.Spec.Hook, h.Spec.ActionName,
			h.Spec.ParentRef.Kind, h.Spec.ParentRef.Name, h.Status.Failures, s.timeSince(started.Time), h.Status.Message)
	}
	r.summary = countOf(len(s.HookRuns.Value.Items), "HookRun") + "; none is retried for long"
}

// checkFinalizers checks that deleted objects go away.
func checkFinalizers(s *Snapshot, r *report) {
	for _, list := range []runtime.Object{
		&s.Locations.Value, &s.Plugins.Value, &s.Schedules.Value, &s.Backups.Value, &s.Restores.Value,
		&s.DeletionRuns.Value, &s.HookRuns.Value, &s.AsyncOperations.Value,
	} {
		_ = meta.EachListItem(list, func(item runtime.Object) error { // these are lists
			o, err := meta.Accessor(item)
			if err != nil || o.GetDeletionTimestamp().IsZero() || s.timeSince(o.GetDeletionTimestamp().Time) < terminatingTime {
				return err
			}
			kind := strings.TrimPrefix(fmt.Sprintf("%T", item), "*v1alpha1.")
			r.addFinding(Warning, "let the operator finish its clean-up ("+strings.TrimPrefix(seeCleanupOwed, "see ")+"), or "+seeOperatorGone,
				"%s %s has been terminating for %s, held by %s", kind, o.GetName(), s.timeSince(o.GetDeletionTimestamp().Time), strings.Join(o.GetFinalizers(), ", "))
			return nil
		})
	}
	r.summary = "no deletion is stuck"
}
