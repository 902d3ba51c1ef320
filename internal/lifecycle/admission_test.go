// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// newWaiting returns a driver with a clock, and a Backup that was created at begin.
func newWaiting(grace time.Duration, created time.Time, now *time.Time) (*Driver[*v1alpha1.Backup], *Scope[*v1alpha1.Backup]) {
	d := &Driver[*v1alpha1.Backup]{
		Dependencies: Dependencies{AdmissionGrace: grace, Now: func() time.Time { return *now }}, Kind: BackupKind,
		queue: newQueue(1, func(types.NamespacedName) {}),
	}
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "backup-1", UID: "u-1", CreationTimestamp: metav1.NewTime(created)}}
	return d, newScope(BackupKind, b)
}

func TestAwaitAdmission(t *testing.T) {
	begin := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		grace   time.Duration
		created time.Time
		missing []string
		// passes are when the run is reconciled, after begin.
		passes []time.Duration
		// want is whether the run waits, for each pass.
		want []bool
	}{
		"nothing is missing":         {grace: time.Minute, created: begin, passes: []time.Duration{0}, want: []bool{false}},
		"without a grace":            {created: begin, missing: []string{"x"}, passes: []time.Duration{0}, want: []bool{false}},
		"until the grace has passed": {grace: time.Minute, created: begin, missing: []string{"x"}, passes: []time.Duration{0, 59 * time.Second, time.Minute}, want: []bool{true, true, false}},
		"created long ago":           {grace: time.Minute, created: begin.Add(-time.Hour), missing: []string{"x"}, passes: []time.Duration{0}, want: []bool{false}},
		"created in the future":      {grace: time.Minute, created: begin.Add(time.Hour), missing: []string{"x"}, passes: []time.Duration{0, 59 * time.Second, time.Minute}, want: []bool{true, true, false}},
		"a little in the future":     {grace: time.Minute, created: begin.Add(5 * time.Second), missing: []string{"x"}, passes: []time.Duration{0, time.Minute}, want: []bool{true, false}},
		"first seen late":            {grace: time.Minute, created: begin.Add(-50 * time.Second), missing: []string{"x"}, passes: []time.Duration{0, 10 * time.Second}, want: []bool{true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			now := begin
			d, s := newWaiting(tc.grace, tc.created, &now)
			message := ""
			for i, pass := range tc.passes {
				now = begin.Add(pass)
				s.requeue = 0
				got := d.AwaitAdmission(s, v1alpha1.ReasonWaitingForLocation, tc.missing)
				if got != tc.want[i] {
					t.Fatalf("after %s: waits %v, want %v", pass, got, tc.want[i])
				}
				if !got {
					continue
				}
				if s.requeue <= 0 || s.requeue > tc.grace {
					t.Errorf("after %s: requeued after %s, which is not within the grace of %s", pass, s.requeue, tc.grace)
				}
				if message != "" && s.Object.Status.Message != message {
					t.Errorf("the message changed without a cause, from %q to %q", message, s.Object.Status.Message)
				}
				message = s.Object.Status.Message
			}
		})
	}
}

// TestAwaitLocationRecovery has Backups that have waited for their turn for an hour.
func TestAwaitLocationRecovery(t *testing.T) {
	begin := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		grace    time.Duration
		problems []string
		passes   []time.Duration
		want     []bool
	}{
		"it works":                   {grace: time.Minute, passes: []time.Duration{0}, want: []bool{false}},
		"without a grace":            {problems: []string{"x"}, passes: []time.Duration{0}, want: []bool{false}},
		"until the grace has passed": {grace: time.Minute, problems: []string{"x"}, passes: []time.Duration{0, 30 * time.Second, 59 * time.Second, time.Minute}, want: []bool{true, true, true, false}},
		"a second outage":            {grace: time.Minute, problems: []string{"x"}, passes: []time.Duration{0, 10 * time.Minute, 11 * time.Minute}, want: []bool{true, true, false}},
		"no pass meanwhile":          {grace: time.Minute, problems: []string{"x"}, passes: []time.Duration{0, 61 * time.Second}, want: []bool{true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			now := begin
			d, s := newWaiting(tc.grace, begin.Add(-time.Hour), &now)
			for i, pass := range tc.passes {
				now = begin.Add(pass)
				if got := d.AwaitLocationRecovery(s, tc.problems); got != tc.want[i] {
					t.Errorf("after %s: waits %v, want %v", pass, got, tc.want[i])
				}
			}
		})
	}
}

func TestAwaitAdmission_Status(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	d, s := newWaiting(2*time.Minute, now, &now)
	if !d.AcquireSlot(s) {
		t.Fatal("the only slot is not free")
	}
	if !d.AwaitAdmission(s, v1alpha1.ReasonWaitingForLocation, []string{"there is no location", "create one"}) {
		t.Fatal("the run does not wait")
	}
	const want = "Waiting until 12:02:00 UTC for objects that may still be created: there is no location; create one"
	for _, condition := range []string{v1alpha1.ConditionSucceeded, v1alpha1.ConditionReconciling} {
		c := conditions.Get(s.Object, condition)
		if c == nil || c.Reason != v1alpha1.ReasonWaitingForLocation || c.Message != want {
			t.Errorf("condition %s is %+v, want %q", condition, c, want)
		}
	}
	_, other := newWaiting(0, now, &now)
	other.Object.UID, other.Object.Name = "u-2", "backup-2"
	if !d.AcquireSlot(other) {
		t.Error("a waiting run holds the slot")
	}
}

// TestAwaitPlugins has Backups that have waited for their turn for an hour.
func TestAwaitPlugins(t *testing.T) {
	notReady := hook.Plan{Errors: []string{"e"}, Recoverable: []string{"e"}}
	missing := hook.Plan{Warnings: []string{"w"}, Recoverable: []string{"w"}}
	invalid := hook.Plan{Errors: []string{"e", "invalid"}, Recoverable: []string{"e"}}
	type pass struct {
		after time.Duration
		plan  hook.Plan
		waits bool
	}
	for name, tc := range map[string]struct {
		grace  time.Duration
		passes []pass
	}{
		"nothing is wrong":                 {grace: time.Minute, passes: []pass{{plan: hook.Plan{Warnings: []string{"w"}}}}},
		"a Plugin is not ready":            {grace: time.Minute, passes: []pass{{0, notReady, true}, {59 * time.Second, notReady, true}, {time.Minute, notReady, false}}},
		"it is never ready again":          {grace: time.Minute, passes: []pass{{0, notReady, true}, {time.Minute, notReady, false}, {time.Hour, notReady, false}}},
		"it is ready and crashes again":    {grace: time.Minute, passes: []pass{{0, notReady, true}, {30 * time.Second, hook.Plan{}, false}, {80 * time.Second, notReady, true}, {140 * time.Second, notReady, false}}},
		"without a grace":                  {passes: []pass{{0, notReady, false}}},
		"no Plugin provides an action yet": {grace: time.Minute, passes: []pass{{0, missing, false}}},
		"within the grace of its creation": {grace: 2 * time.Hour, passes: []pass{{0, missing, true}, {time.Hour, missing, false}}},
		"an annotation is invalid":         {grace: time.Minute, passes: []pass{{0, invalid, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
			now := begin
			d, s := newWaiting(tc.grace, begin.Add(-time.Hour), &now)
			for _, p := range tc.passes {
				now = begin.Add(p.after)
				s.Object.Status.Message, s.requeue = "", 0
				if got := d.AwaitPlugins(s, p.plan); got != p.waits {
					t.Errorf("after %s: waits %v, want %v", p.after, got, p.waits)
				}
				if p.waits && (!strings.Contains(s.Object.Status.Message, p.plan.Recoverable[0]) || s.requeue <= 0 || s.requeue > tc.grace) {
					t.Errorf("after %s: message %q, requeued after %s", p.after, s.Object.Status.Message, s.requeue)
				}
			}
		})
	}
}
