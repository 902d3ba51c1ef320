// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

const (
	// observationTime is how long the operator may take to reconcile a new or changed object.
	observationTime = 2 * time.Minute
	// checkTime is how old the last check of a location may be beyond its interval; by default, the operator checks it
	// every minute.
	checkTime = 15 * time.Minute
	// defaultLocationName is the name of the default location if none is marked.
	defaultLocationName = "default"

	operatorInactive = "check that the operator runs; " + seeInstallation
)

// isUnobserved reports whether the operator should have reconciled an object by now, and has not.
func isUnobserved(s *Snapshot, o metav1.Object, observed int64) bool {
	return observed < 0 && s.timeSince(o.GetCreationTimestamp().Time) > observationTime
}

// checkLocations checks that Backups have a location, and that all locations can be used.
func checkLocations(s *Snapshot, r *report) {
	if r.addUnread(s.Locations.Err, "list backupstoragelocations") {
		return
	}
	list := s.Locations.Value.Items
	if len(list) == 0 {
		r.addFinding(Error, "create one with kubectl grapnel location create, or set --namespace to that of the operator; see docs/spec/backupstoragelocation.md",
			"namespace %s has no location", s.Namespace)
		return
	}
	var defaults []string
	byName := "" // is the default if no location is marked
	for i := range list {
		switch l := &list[i]; {
		case !l.DeletionTimestamp.IsZero():
			continue
		case l.Spec.Default:
			defaults = append(defaults, l.Name)
		case l.Name == defaultLocationName:
			byName = l.Name
		}
		checkLocation(s, r, &list[i])
	}
	switch {
	case len(defaults) > 1:
		r.addFinding(Error, "set spec.default of only one of them", "several locations are the default (%s): Backups that name none fail", strings.Join(defaults, ", "))
	case len(defaults) == 1:
		byName = defaults[0]
	case byName == "":
		r.addFinding(Warning, "set spec.default of one of them", "no location is the default: Backups must name one")
	}
	checkLastValidation(s, r)
	r.summary = fmt.Sprintf("%s available, the default is %s", countOf(len(list), "location"), byName)
}

// checkLocation checks one location.
func checkLocation(s *Snapshot, r *report, l *v1alpha1.BackupStorageLocation) {
	isTrue := func(condition string) bool { return meta.IsStatusConditionTrue(l.Status.Conditions, condition) }
	writable := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionWritable)
	switch {
	case isUnobserved(s, l, l.Status.ObservedGeneration):
		r.addFinding(Error, operatorInactive, "location %s was never checked", l.Name)
		return
	case l.Status.ObservedGeneration < 0:
		r.addFinding(Note, "", "location %s was not checked yet", l.Name)
		return
	case !isTrue(v1alpha1.ConditionAvailable):
		r.addFinding(Error, "fix the location, its credentials or the network; see docs/spec/backupstoragelocation.md", "location %s is unavailable: %s", l.Name, l.Status.Message)
	case l.Spec.AccessMode == v1alpha1.AccessModeReadOnly && l.Spec.Default:
		r.addFinding(Warning, "make another location the default, or set its spec.accessMode to ReadWrite",
			"location %s is the default and read-only: Backups that name no other fail", l.Name)
	case l.Spec.AccessMode == v1alpha1.AccessModeReadOnly:
		r.addFinding(Note, "", "location %s is read-only", l.Name)
	case writable != nil && writable.Status == metav1.ConditionFalse:
		r.addFinding(Error, "delete backups, or make the location larger", "location %s takes no new backups: %s", l.Name, writable.Message)
	case writable != nil && writable.Reason == v1alpha1.ReasonAlmostFull:
		r.addFinding(Warning, "delete backups, or make the location larger", "location %s: %s", l.Name, writable.Message)
	}
	if isTrue(v1alpha1.ConditionExpiryHeld) {
		held := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionExpiryHeld)
		r.addFinding(Warning, "see docs/guides/troubleshoot.md#when-a-clock-is-wrong", "Backups of location %s do not expire: %s", l.Name, held.Message)
	}
	synced := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionSynced)
	if synced != nil && synced.Status == metav1.ConditionFalse && isTrue(v1alpha1.ConditionAvailable) {
		r.addFinding(Warning, "see docs/spec/backupstoragelocation.md#backups-of-other-clusters-and-of-velero", "location %s was not imported completely: %s", l.Name, synced.Message)
	}
}

// checkLastValidation checks that the operator checks locations regularly, which shows that it is active.
func checkLastValidation(s *Snapshot, r *report) {
	var newest time.Time
	for i := range s.Locations.Value.Items {
		l := &s.Locations.Value.Items[i]
		at, allowed := l.Status.LastValidationTime, checkTime
		if own := l.Spec.CheckInterval; own != nil {
			allowed += own.Duration
			if own.Duration == 0 && l.Status.Phase == v1alpha1.LocationPhaseAvailable {
				continue // it is not checked regularly
			}
		}
		switch {
		case at == nil:
		case s.timeSince(at.Time) <= allowed:
			return
		case at.After(newest):
			newest = at.Time
		}
	}
	if !newest.IsZero() {
		r.addFinding(Error, operatorInactive, "no location was checked for %s: the operator does not run, or its clock is wrong", s.timeSince(newest))
	}
}

// checkPlugins checks that all Plugins are ready.
func checkPlugins(s *Snapshot, r *report) {
	if r.addUnread(s.Plugins.Err, "list plugins, which belong to no namespace") {
		return
	}
	for i := range s.Plugins.Value.Items {
		p := &s.Plugins.Value.Items[i]
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case !p.DeletionTimestamp.IsZero():
		case p.Spec.Suspend:
			r.addFinding(Note, "", "Plugin %s is suspended: no new run uses it", p.Name)
		case isUnobserved(s, p, p.Status.ObservedGeneration):
			r.addFinding(Error, operatorInactive, "Plugin %s was never loaded", p.Name)
		case ready == nil || ready.Reason == v1alpha1.ReasonLoading:
			r.addFinding(Note, "", "Plugin %s is being loaded", p.Name)
		case ready.Status != metav1.ConditionTrue && p.Spec.FailurePolicy == v1alpha1.FailurePolicyIgnore:
			r.addFinding(Warning, seePluginNotReady, "Plugin %s is not ready (%s), and left out of runs: %s", p.Name, ready.Reason, p.Status.Message)
		case ready.Status != metav1.ConditionTrue:
			r.addFinding(Error, seePluginNotReady, "Plugin %s is not ready (%s), and every run that it applies to fails its validation: %s",
				p.Name, ready.Reason, p.Status.Message)
		}
		if duplicate := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDuplicateActions); duplicate != nil && duplicate.Status == metav1.ConditionTrue {
			r.addFinding(Warning, seePluginNotReady, "Plugin %s: %s", p.Name, duplicate.Message)
		}
	}
	r.summary = countOf(len(s.Plugins.Value.Items), "Plugin") + " ready"
}

// checkSchedules checks that Schedules create Backups, and that these succeed.
func checkSchedules(s *Snapshot, r *report) {
	if r.addUnread(s.Schedules.Err, "list schedules") {
		return
	}
	for i := range s.Schedules.Value.Items {
		if o := &s.Schedules.Value.Items[i]; o.DeletionTimestamp.IsZero() {
			checkSchedule(s, r, o)
		}
	}
	r.summary = countOf(len(s.Schedules.Value.Items), "Schedule") + ", each with its Backups"
	if len(s.Schedules.Value.Items) == 0 {
		r.summary = "no Schedules: Backups are created only by hand"
	}
}

// checkSchedule checks one Schedule.
func checkSchedule(s *Snapshot, r *report, o *v1alpha1.Schedule) {
	status := &o.Status
	next := status.NextScheduleTime
	switch {
	case o.Spec.Suspend:
		r.addFinding(Note, "kubectl grapnel schedule resume "+o.Name, "Schedule %s is paused", o.Name)
		return
	case isUnobserved(s, o, status.ObservedGeneration):
		r.addFinding(Error, operatorInactive, "Schedule %s was never processed", o.Name)
		return
	case status.Phase == v1alpha1.SchedulePhaseFailedValidation:
		r.addFinding(Error, "fix its spec", "Schedule %s is invalid: %s", o.Name, status.Message)
		return
	case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled):
		r.addFinding(Error, "see docs/spec/schedule.md", "Schedule %s creates no Backups: %s", o.Name, status.Message)
		return
	case next != nil && s.timeSince(next.Time) > observationTime && status.Active == 0:
		r.addFinding(Error, operatorInactive, "Schedule %s should have created a Backup %s ago", o.Name, s.timeSince(next.Time))
	}
	checkScheduledBackups(s, r, o)
}

// checkScheduledBackups checks the outcome of the Backups of a Schedule.
func checkScheduledBackups(s *Snapshot, r *report, o *v1alpha1.Schedule) {
	status := &o.Status
	if phase := backupPhase(s, status.LastBackup); IsFailure(phase) {
		severity := Error
		if phase == v1alpha1.RunPhasePartiallyFailed {
			severity = Warning
		}
		r.addFinding(severity, "kubectl grapnel backup describe "+status.LastBackup, "the last Backup of Schedule %s, %s, is %s", o.Name, status.LastBackup, phase)
	}
	cron, err := schedule.Parse(o.Spec.Schedule, o.Spec.TimeZone)
	if err != nil {
		return // the operator reports it in the status
	}
	since, what := o.CreationTimestamp.Time, "no Backup of Schedule %s was ever Completed, although it has existed for %s"
	if status.LastSuccessfulTime != nil {
		since, what = status.LastSuccessfulTime.Time, "the last Completed Backup of Schedule %s is %s old"
	}
	// The Backup of the newest time may still run, and that of the time before should have succeeded.
	if due := cron.Next(cron.Next(since)); !due.IsZero() && due.Before(s.currentTime()) {
		r.addFinding(Warning, "kubectl grapnel backup get -l "+v1alpha1.LabelScheduleName+"="+o.Name, what+", which is more than two of its intervals", o.Name, s.timeSince(since))
	}
}

// backupPhase returns the phase of a Backup; empty if it is unknown.
func backupPhase(s *Snapshot, name string) v1alpha1.RunPhase {
	for i := range s.Backups.Value.Items {
		if b := &s.Backups.Value.Items[i]; b.Name == name {
			return b.Status.Phase
		}
	}
	return ""
}

// IsFailure reports whether a run ended without doing everything that it should.
func IsFailure(phase v1alpha1.RunPhase) bool {
	switch phase {
	case v1alpha1.RunPhasePartiallyFailed, v1alpha1.RunPhaseFailed, v1alpha1.RunPhaseFailedValidation,
		v1alpha1.RunPhaseFailedPreBackupActions, v1alpha1.RunPhaseFailedPreRestoreActions:
		return true
	default:
		return false
	}
}

// countOf returns a number of objects as words.
func countOf(n int, kind string) string {
	if n == 1 {
		return "1 " + kind
	}
	return fmt.Sprintf("%d %ss", n, kind)
}
