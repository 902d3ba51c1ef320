// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour

	interval = `grapnel_schedule_expected_interval_seconds{schedule="nightly"}`
)

// stories are what happens to operators, with the alerts that fire at the end of each step.
var stories = map[string][]step{
	"nothing fails": {
		{recording: "leader", standby: "standby", lasts: 6 * hour},
	},
	"a Schedule stops creating Backups": {
		{recording: "schedule-completed", lasts: 47 * hour},
		{recording: "schedule-completed", lasts: 49 * hour, want: []string{"GrapnelScheduleWithoutBackup schedule=nightly"}},
		{recording: "schedule-completed", lasts: 10 * minute},
	},
	"a Schedule never had a successful Backup": {
		{recording: "schedule-new", lasts: 47 * hour},
		{recording: "schedule-new", lasts: 49 * hour, want: []string{"GrapnelScheduleWithoutBackup schedule=nightly"}},
	},
	"the Backup of a Schedule fails": {
		{recording: "schedule-completed", lasts: day},
		{recording: "schedule-failed", lasts: 5 * minute},
		{recording: "schedule-failed", lasts: 10 * minute, want: []string{"GrapnelScheduledBackupFailed schedule=nightly"}},
		{recording: "schedule-completed", lasts: 10 * minute},
	},
	"a Schedule is suspended for a week": {
		{recording: "schedule-completed", lasts: hour},
		{recording: "schedule-suspended", lasts: 7 * day},
		{recording: "schedule-resumed", isLater: true, lasts: 47 * hour},
		{recording: "schedule-resumed", isLater: true, lasts: 2 * hour, want: []string{"GrapnelScheduleWithoutBackup schedule=nightly"}},
	},
	"a Schedule pauses on weekends": {
		// On Thursday, the next Backup is on Friday, and the one after it on Monday.
		{recording: "schedule-completed", lasts: day, change: map[string]float64{interval: 2 * day.Seconds()}},
		{recording: "schedule-completed", lasts: 3 * day},
		{recording: "schedule-completed", isLater: true, lasts: 25 * hour, want: []string{"GrapnelScheduleWithoutBackup schedule=nightly"}},
	},
	"clean-up is overdue": {
		{recording: "leader", lasts: 10 * minute},
		{recording: "cleanup-overdue", lasts: 5 * minute, want: []string{"GrapnelCleanupOverdue backup=*"}},
		{recording: "cleanup-abandoned", lasts: 5 * minute},
	},
	"a location is unavailable": {
		{recording: "location-available", lasts: 10 * minute},
		{recording: "location-unavailable", lasts: 15 * minute},
		{recording: "location-unavailable", lasts: 5 * minute, want: []string{"GrapnelLocationUnavailable location=away"}},
		{recording: "location-available", lasts: 5 * minute},
	},
	"a backup cannot be read": {
		{recording: "backup-unreadable", lasts: 30 * minute},
		{recording: "backup-unreadable", lasts: 5 * minute, want: []string{"GrapnelBackupsUnreadable location=files"}},
	},
	"most Backups expire at once": {
		{recording: "expiry-held", lasts: 10 * minute, want: []string{"GrapnelExpiryHeld location=files"}},
		{recording: "leader", lasts: 5 * minute},
	},
	"a deletion leaves something behind": {
		{recording: "deletion-partially-failed", lasts: 10 * minute, want: []string{"GrapnelDataLeftBehind"}},
		{recording: "deletion-forgotten", lasts: 5 * minute},
	},
	"a namespace is deleted with its backups": {
		{recording: "leader", lasts: 10 * minute},
		{recording: "leader", change: map[string]float64{"grapnel_data_left_behind_total": 1}, lasts: hour, want: []string{"GrapnelDataLeftBehind"}},
		{recording: "leader", change: map[string]float64{"grapnel_data_left_behind_total": 1}, lasts: 24 * hour},
	},
	"a Plugin does not load": {
		{recording: "leader", lasts: 10 * minute},
		{recording: "plugin-not-ready", lasts: 15 * minute},
		{recording: "plugin-not-ready", lasts: 5 * minute, want: []string{"GrapnelPluginNotReady plugin=missing"}},
		{recording: "plugin-suspended", lasts: 5 * minute},
	},
	"a plugin does not answer about its operations": {
		{recording: "operation-unanswered-before", lasts: 10 * minute},
		{recording: "operation-unanswered", isGrowing: true, lasts: 25 * minute, want: []string{"GrapnelOperationsUnanswered plugin=silent"}},
		{recording: "operation-cancelled", lasts: 5 * minute},
	},
	"work does not end": {
		{recording: "leader", lasts: 10 * minute},
		{recording: "leader", change: map[string]float64{"grapnel_restore_steps_left_behind": 1}, lasts: 20 * minute, want: []string{"GrapnelWorkStuck"}},
		{recording: "leader", lasts: 5 * minute},
	},
	"the API server fails": {
		{recording: "leader", lasts: 10 * minute},
		{
			recording: "leader", isGrowing: true, lasts: 30 * minute, want: []string{"GrapnelAPIErrors"},
			change: map[string]float64{
				`rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"}`:     30,
				`rest_client_requests_total{code="503",host="10.0.0.1:443",method="PUT"}`:     2,
				`rest_client_requests_total{code="<error>",host="10.0.0.1:443",method="GET"}`: 3,
			},
		},
	},
	"the API server restarts": {
		{recording: "leader", lasts: 10 * minute},
		{
			recording: "leader", isGrowing: true, lasts: 5 * minute,
			change: map[string]float64{`rest_client_requests_total{code="<error>",host="10.0.0.1:443",method="GET"}`: 30},
		},
		{
			recording: "leader", isGrowing: true, lasts: 8 * minute,
			change: map[string]float64{`rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"}`: 30},
		},
	},
	"no operator leads": {
		{recording: "leader", standby: "standby", lasts: 10 * minute},
		{recording: "standby", lasts: 4 * minute}, // the other one takes over in seconds
		{recording: "standby", lasts: 6 * minute, want: []string{"GrapnelNoLeader"}},
		{recording: "leader", lasts: 5 * minute},
	},
	"no operator runs": {
		{recording: "leader", lasts: 10 * minute},
		{lasts: 9 * minute}, // an upgrade
		{lasts: 6 * minute, want: []string{"GrapnelOperatorDown"}},
		{recording: "leader", lasts: 5 * minute},
	},
}

func TestStories(t *testing.T) {
	fired, told := map[string]bool{}, 0
	for name, steps := range stories {
		t.Run(name, func(t *testing.T) {
			told++
			p := newPrometheus(t)
			var before recording
			for i, s := range steps {
				before = p.replay(t, s, before)
				if t.Failed() {
					t.Fatalf("step %d", i)
				}
				if p.checkFiring(t, s.want); t.Failed() {
					t.Fatalf("at the end of step %d, %s", i, s.recording)
				}
			}
			for alert, annotations := range p.rendered {
				fired[alert] = true
				checkAnnotations(t, alert, annotations)
			}
		})
	}
	for _, rule := range readRules(t) {
		if told == len(stories) && !fired[rule.Alert] && !t.Failed() {
			t.Errorf("in no story, %s fires", rule.Alert)
		}
	}
}

// checkAnnotations checks what a person reads.
func checkAnnotations(t *testing.T, alert string, annotations labels.Labels) {
	t.Helper()
	annotations.Range(func(l labels.Label) {
		words := []string{"<error", "<no value>", "{{", "NaN", "  ", " .", " in  "}
		if i := slices.IndexFunc(words, func(word string) bool { return strings.Contains(l.Value, word) }); i >= 0 {
			t.Errorf("the %s of %s has %q: %s", l.Name, alert, words[i], l.Value)
		}
	})
}
