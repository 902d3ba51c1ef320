// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

func hours(n time.Duration) *metav1.Duration { return &metav1.Duration{Duration: n * time.Hour} }

// begun returns a Backup whose plan was recorded some time ago.
func begun(age time.Duration) *v1alpha1.Backup {
	b := queued("nightly", 0)
	b.Status.StorageLocation = "main"
	b.Status.StartTimestamp = &metav1.Time{Time: noon.Add(-age)}
	b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPlanned, Status: metav1.ConditionTrue}}
	return b
}

func TestCheckDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		age         time.Duration
		edit        func(b *v1alpha1.Backup)
		wantExpired bool
		wantLeft    time.Duration
	}{
		"the operator's default":     {age: 23 * time.Hour, wantLeft: time.Hour},
		"the default has passed":     {age: 24 * time.Hour, wantExpired: true},
		"a clock that was set back":  {age: -time.Hour, wantLeft: 24 * time.Hour},
		"its own":                    {age: time.Hour, edit: func(b *v1alpha1.Backup) { b.Spec.Timeouts = &v1alpha1.BackupTimeouts{Run: hours(3)} }, wantLeft: 2 * time.Hour},
		"its own has passed":         {age: 4 * time.Hour, edit: func(b *v1alpha1.Backup) { b.Spec.Timeouts = &v1alpha1.BackupTimeouts{Run: hours(3)} }, wantExpired: true},
		"only one for the archive":   {age: time.Hour, edit: func(b *v1alpha1.Backup) { b.Spec.Timeouts = &v1alpha1.BackupTimeouts{Archive: hours(3)} }, wantLeft: 23 * time.Hour},
		"the plan is not recorded":   {edit: func(b *v1alpha1.Backup) { b.Status.StartTimestamp = nil }},
		"the outcome is known":       {age: 100 * time.Hour, edit: func(b *v1alpha1.Backup) { b.Status.CompletionTimestamp = &metav1.Time{Time: noon} }},
		"operations take their time": {age: 30 * time.Hour, edit: func(b *v1alpha1.Backup) { b.Spec.ItemOperationTimeout = hours(48); plan(b, nil) }, wantLeft: 42 * time.Hour},
		"those of a Plugin, too":     {age: 30 * time.Hour, edit: func(b *v1alpha1.Backup) { plan(b, hours(10)) }, wantLeft: 4 * time.Hour},
		"operations, and its own": {age: 30 * time.Hour, edit: func(b *v1alpha1.Backup) {
			plan(b, hours(10))
			b.Spec.Timeouts = &v1alpha1.BackupTimeouts{Run: hours(3)}
		}, wantExpired: true},
	} {
		t.Run(name, func(t *testing.T) {
			d, b := driverWith(t, nil), begun(tc.age)
			d.Limits = d.Limits.WithDefaults()
			if tc.edit != nil {
				tc.edit(b)
			}
			s := newScope(BackupKind, b)
			d.checkDeadline(t.Context(), s)
			if s.IsDeadlineExceeded() != tc.wantExpired || s.requeue != tc.wantLeft || s.IsCancelRequested() != tc.wantExpired {
				t.Errorf("expired: %v, requeued after %s; want %v, %s", s.IsDeadlineExceeded(), s.requeue, tc.wantExpired, tc.wantLeft)
			}
		})
	}
}

// TestCheckDeadline_Clocks has a process that first sees a run of a Backup with a deadline of 24
// h, and checks it again later.
func TestCheckDeadline_Clocks(t *testing.T) {
	away := errors.New("connection refused")
	for name, tc := range map[string]struct {
		// age is the age of the run by the clock of the process at that time, and ahead is how far
		// that clock is ahead of the clock of the API server.
		age, ahead time.Duration
		fails      error
		// created is how long after its recorded start the run was created, by the API server.
		created     time.Duration
		later       time.Duration
		wantExpired bool
		wantLeft    time.Duration
		wantAsked   int
	}{
		"the run is young":                       {age: time.Hour, wantLeft: 23 * time.Hour},
		"the deadline has passed by both clocks": {age: 25 * time.Hour, wantExpired: true, wantAsked: 1},
		"the clock is 25 h ahead":                {age: 26 * time.Hour, ahead: 25 * time.Hour, wantLeft: 23 * time.Hour, wantAsked: 1},
		"it is ahead, and the time passes":       {age: 26 * time.Hour, ahead: 25 * time.Hour, later: 23 * time.Hour, wantExpired: true, wantAsked: 1},
		"it is ahead, and some of it passes":     {age: 26 * time.Hour, ahead: 25 * time.Hour, later: 22 * time.Hour, wantLeft: time.Hour, wantAsked: 1},
		"it is ahead of a run that is young":     {age: 20 * time.Hour, ahead: 19 * time.Hour, later: 4 * time.Hour, wantLeft: 19 * time.Hour, wantAsked: 1},
		"the API server is away":                 {age: 25 * time.Hour, fails: away, wantLeft: time.Minute, wantAsked: 1},
		"the API server is away for longer":      {age: 25 * time.Hour, fails: away, later: time.Minute, wantLeft: time.Minute, wantAsked: 2},
		"no request in between":                  {age: 25 * time.Hour, fails: away, later: 20 * time.Second, wantLeft: 40 * time.Second, wantAsked: 1},
		"the API server never answers":           {age: 25 * time.Hour, fails: away, later: 24 * time.Hour, wantExpired: true, wantAsked: 1},
		"a clock was behind at the beginning":    {age: 25 * time.Hour, created: 24 * time.Hour, wantLeft: 23 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			d, b := driverWith(t, nil), begun(tc.age)
			d.Limits = d.Limits.WithDefaults()
			if tc.created > 0 {
				b.CreationTimestamp = metav1.NewTime(b.Status.StartTimestamp.Add(tc.created))
			}
			now, asked := noon, 0
			d.Now = func() time.Time { return now }
			d.ServerTime = func(context.Context, string) (time.Time, error) { asked++; return now.Add(-tc.ahead), tc.fails }
			s := newScope(BackupKind, b)
			d.checkDeadline(t.Context(), s)
			if tc.later > 0 {
				if s.IsDeadlineExceeded() {
					t.Error("the run expired at once")
				}
				now, s = now.Add(tc.later), newScope(BackupKind, b)
				d.checkDeadline(t.Context(), s)
			}
			if s.IsDeadlineExceeded() != tc.wantExpired || s.requeue != tc.wantLeft || asked != tc.wantAsked {
				t.Errorf("expired: %v, requeued after %s, %d requests for the server time; want %v, %s, %d",
					s.IsDeadlineExceeded(), s.requeue, asked, tc.wantExpired, tc.wantLeft, tc.wantAsked)
			}
		})
	}
}

// plan adds a planned action that starts operations.
func plan(b *v1alpha1.Backup, timeout *metav1.Duration) {
	b.Status.ItemActions = []v1alpha1.PlannedItemAction{{Name: "x/move", Kind: v1alpha1.ActionKindAsyncBackupItem, Operation: &v1alpha1.OperationPolicy{Timeout: timeout}}}
}

func TestFailedOutcome(t *testing.T) {
	late := &deadlineError{what: "archive", limit: time.Hour}
	stuck := fmt.Errorf("%w within 1m0s (%w)", runner.ErrStuck, late)
	for name, tc := range map[string]struct {
		err        error
		age        time.Duration
		cancel     bool
		wantPhase  v1alpha1.RunPhase
		wantReason string
		wantText   string
	}{
		"an error":                  {err: errors.New("no space"), wantPhase: v1alpha1.RunPhaseFailed, wantReason: v1alpha1.ReasonFailed, wantText: "It failed: no space"},
		"a deadline of the work":    {err: fmt.Errorf("%w: %w", late, context.Canceled), wantPhase: v1alpha1.RunPhaseFailed, wantReason: v1alpha1.ReasonDeadlineExceeded, wantText: "the deadline of 1h0m0s of the archive has passed"},
		"a deadline of the run":     {err: context.Canceled, age: 25 * time.Hour, wantPhase: v1alpha1.RunPhaseFailed, wantReason: v1alpha1.ReasonDeadlineExceeded, wantText: "the deadline of 24h0m0s of the Backup has passed"},
		"a step that hangs":         {err: stuck, wantPhase: v1alpha1.RunPhaseFailed, wantReason: v1alpha1.ReasonStoreStalled, wantText: "probably because BackupStorageLocation main does not respond"},
		"it hangs, and the run":     {err: stuck, age: 25 * time.Hour, wantPhase: v1alpha1.RunPhaseFailed, wantReason: v1alpha1.ReasonStoreStalled, wantText: "probably because BackupStorageLocation main does not respond"},
		"a store that stalled":      {err: fmt.Errorf("writing: %w", objectstore.ErrStalled), wantPhase: v1alpha1.RunPhaseFailed, wantReason: v1alpha1.ReasonStoreStalled, wantText: "It failed: writing"},
		"a user":                    {err: errRunCanceled, cancel: true, wantPhase: v1alpha1.RunPhaseCancelled, wantReason: v1alpha1.ReasonCancelled, wantText: "Cancelled: spec.desiredState is Cancel"},
		"a user, and it hangs":      {err: stuck, cancel: true, wantPhase: v1alpha1.RunPhaseCancelled, wantReason: v1alpha1.ReasonCancelled, wantText: "probably because BackupStorageLocation main does not respond"},
		"a user after the deadline": {err: errRunCanceled, cancel: true, age: 25 * time.Hour, wantPhase: v1alpha1.RunPhaseCancelled, wantReason: v1alpha1.ReasonCancelled, wantText: "spec.desiredState is Cancel"},
		"crashes":                   {err: fmt.Errorf("%w 3 times", errCrashed), wantPhase: v1alpha1.RunPhaseFailed, wantReason: v1alpha1.ReasonRunCrashed, wantText: "crashed 3 times"},
	} {
		t.Run(name, func(t *testing.T) {
			d, b := driverWith(t, nil), begun(tc.age)
			d.Limits, d.Redactor = d.Limits.WithDefaults(), redact.New()
			d.Location = func(b *v1alpha1.Backup) string { return b.Status.StorageLocation }
			if tc.cancel {
				b.Spec.DesiredState = v1alpha1.DesiredStateCancel
			}
			s := newScope(BackupKind, b)
			d.checkDeadline(t.Context(), s)
			o := d.FailedOutcome(s, "It failed", tc.err)
			if o.Phase != tc.wantPhase || o.Reason != tc.wantReason || !strings.Contains(o.Message, tc.wantText) {
				t.Errorf("outcome %+v, want %s, %s, %q", o, tc.wantPhase, tc.wantReason, tc.wantText)
			}
		})
	}
}

// stepping is a Driver whose steps run in a synctest bubble.
func stepping(t *testing.T) *Driver[*v1alpha1.Backup] {
	t.Helper()
	d := driverWith(t, nil)
	d.Limits = d.Limits.WithDefaults()
	d.Now = time.Now
	d.steps = runner.New[any](func(types.NamespacedName) {})
	d.steps.GracePeriod = d.Limits.StuckStepTimeout
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = d.steps.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return d
}

// TestExecuteStep_Ends has a step that ignores its context, and checks when there is an outcome
// anyway.
func TestExecuteStep_Ends(t *testing.T) {
	for name, tc := range map[string]struct {
		edit    func(d *Driver[*v1alpha1.Backup], b *v1alpha1.Backup)
		decided bool
		want    time.Duration
	}{
		"canceled before it started": {
			edit: func(_ *Driver[*v1alpha1.Backup], b *v1alpha1.Backup) {
				b.Spec.DesiredState = v1alpha1.DesiredStateCancel
			},
			want: 75 * time.Second,
		},
		"a step with a timeout": {
			edit: func(d *Driver[*v1alpha1.Backup], _ *v1alpha1.Backup) {
				d.StepTimeouts = map[string]time.Duration{"work": 5 * time.Minute}
			},
			want: 6 * time.Minute,
		},
		"a step with a timeout of a finished Backup that was canceled": {
			edit: func(d *Driver[*v1alpha1.Backup], b *v1alpha1.Backup) {
				d.StepTimeouts = map[string]time.Duration{"work": 5 * time.Minute}
				b.Spec.DesiredState = v1alpha1.DesiredStateCancel
				b.Status.CompletionTimestamp = &metav1.Time{Time: noon}
			},
			want: 6 * time.Minute,
		},
		"the timeout of the work": {
			edit: func(_ *Driver[*v1alpha1.Backup], b *v1alpha1.Backup) {
				b.Spec.Timeouts = &v1alpha1.BackupTimeouts{Archive: hours(2)}
			},
			want: 2*time.Hour + time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, b := stepping(t), begun(0)
				tc.edit(d, b)
				var err error
				if d.Journal, err = Open(t.TempDir(), logr.Discard()); err != nil {
					t.Fatal(err)
				}
				d.Journal.ReserveExclusive(journalID(b.UID, "work"))
				release := make(chan struct{})
				defer close(release)
				start := time.Now()
				var ended *Result[string]
				for ended == nil && time.Since(start) < 100*time.Hour {
					s := newScope(BackupKind, b)
					d.EnforceWorkTimeout(s, "work", "archive")
					ended = ExecuteStep(d, s, "work", func() (func(context.Context) (string, error), error) {
						return func(context.Context) (string, error) { <-release; return "late", nil }, nil
					})
					for _, f := range s.afterUpdate {
						if err := f(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(time.Second)
					synctest.Wait()
				}
				if ended == nil || !errors.Is(ended.Err, runner.ErrStuck) || ended.Value != "" {
					t.Fatalf("the step ended with %+v, want that it was left behind", ended)
				}
				if !d.Journal.ReserveExclusive("another") {
					t.Error("the step prevents other steps from running alone")
				}
				if took := time.Since(start); took < tc.want || took > tc.want+5*time.Second {
					t.Errorf("the step took %s, want %s", took, tc.want)
				}
			})
		})
	}
}
