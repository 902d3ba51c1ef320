// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// noon is when everything in these tests happens.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// run returns a HookRun. It has a start time if its phase implies that the action was called.
func run(point v1alpha1.HookPoint, name string, phase v1alpha1.HookRunPhase, change ...func(*v1alpha1.HookRun)) *v1alpha1.HookRun {
	h := &v1alpha1.HookRun{}
	h.Name, h.Spec.Hook, h.Spec.ActionName = name, point, name
	h.Spec.Timeout.Duration = time.Minute
	h.Spec.DesiredState = v1alpha1.HookDesiredStateRun
	h.Status.Phase = phase
	at := metav1.NewTime(noon.Add(-time.Second))
	switch phase {
	case v1alpha1.HookRunPhasePending, "":
		h.Spec.DesiredState = v1alpha1.HookDesiredStateWait
	case v1alpha1.HookRunPhaseSkipped:
		h.Status.CompletionTimestamp = &at
	case v1alpha1.HookRunPhaseInProgress:
		h.Status.StartTimestamp = &at
	default:
		h.Status.StartTimestamp, h.Status.CompletionTimestamp = &at, &at
	}
	for _, f := range change {
		f(h)
	}
	return h
}

func owed(h *v1alpha1.HookRun) { h.Spec.Owed = true }

func began(ago time.Duration) func(*v1alpha1.HookRun) {
	return func(h *v1alpha1.HookRun) {
		at := metav1.NewTime(noon.Add(-ago))
		h.Status.StartTimestamp = &at
	}
}

// skippedByUser makes it a HookRun that a user skipped.
func skippedByUser(h *v1alpha1.HookRun) {
	h.Status.Message = "Skipped by jane: it was dropped"
	conditions.Set(h, v1alpha1.ConditionSucceeded, metav1.ConditionTrue, v1alpha1.ReasonSkippedByUser, h.Status.Message)
}

const (
	pre  = v1alpha1.HookPreBackup
	post = v1alpha1.HookPostBackup
)

func TestIsHookRunNeeded(t *testing.T) {
	runOn := func(outcomes ...v1alpha1.Outcome) func(*v1alpha1.HookRun) {
		return func(h *v1alpha1.HookRun) { h.Spec.RunOn = outcomes }
	}
	for name, tc := range map[string]struct {
		phase v1alpha1.RunPhase
		pre   *v1alpha1.HookRun
		run   *v1alpha1.HookRun
		want  bool
	}{
		"a Pre action never follows":    {run: run(pre, "a", v1alpha1.HookRunPhasePending)},
		"a pair whose Pre completed":    {pre: run(pre, "a", v1alpha1.HookRunPhaseCompleted), run: run(post, "a", "", owed), want: true},
		"a pair whose Pre failed":       {pre: run(pre, "a", v1alpha1.HookRunPhaseFailed), run: run(post, "a", "", owed), want: true},
		"a pair whose Pre was canceled": {pre: run(pre, "a", v1alpha1.HookRunPhaseCancelled), run: run(post, "a", "", owed), want: true},
		"a pair that never started":     {pre: run(pre, "a", v1alpha1.HookRunPhaseSkipped), run: run(post, "a", "", owed)},
		"a pair after any outcome": {
			phase: v1alpha1.RunPhaseCompleted, pre: run(pre, "a", v1alpha1.HookRunPhaseCompleted),
			run: run(post, "a", "", owed, runOn(v1alpha1.OutcomeFailed)), want: true,
		},
		"by default after any outcome": {phase: v1alpha1.RunPhaseCancelled, run: run(post, "a", ""), want: true},
		"only after failures, and it failed": {
			phase: v1alpha1.RunPhaseFailedPreBackupActions, run: run(post, "a", "", runOn(v1alpha1.OutcomeFailed)), want: true,
		},
		"only after failures, and it was completed": {
			phase: v1alpha1.RunPhaseCompleted, run: run(post, "a", "", runOn(v1alpha1.OutcomeFailed, v1alpha1.OutcomeCancelled)),
		},
		"only after partial failures": {
			phase: v1alpha1.RunPhasePartiallyFailed, run: run(post, "a", "", runOn(v1alpha1.OutcomePartiallyFailed)), want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope(BackupKind, queued("b", 0))
			s.Object.Status.Phase = tc.phase
			if tc.pre != nil {
				s.Pre = []*v1alpha1.HookRun{tc.pre}
			}
			if got := s.isHookRunNeeded(tc.run); got != tc.want {
				t.Errorf("needed: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestUpdateCleanupOwed(t *testing.T) {
	quiesced := run(pre, "a", v1alpha1.HookRunPhaseCompleted)
	for name, tc := range map[string]struct {
		post      *v1alpha1.HookRun
		abandoned bool
		done      bool
		owed      metav1.ConditionStatus
		reason    string
		message   string // not compared if empty
		stalled   bool
		again     time.Duration
	}{
		"it waits for its turn": {
			post: run(post, "a", "", owed), owed: metav1.ConditionTrue, reason: v1alpha1.ReasonCleanupPending,
		},
		"it runs": {
			post: run(post, "a", v1alpha1.HookRunPhaseInProgress, owed, began(20*time.Second)),
			owed: metav1.ConditionTrue, reason: v1alpha1.ReasonCleanupPending, again: 40 * time.Second,
		},
		"it should have ended": {
			post: run(post, "a", v1alpha1.HookRunPhaseInProgress, owed, began(time.Minute)),
			owed: metav1.ConditionTrue, reason: v1alpha1.ReasonCleanupOverdue, stalled: true,
		},
		"a clock was set back since it began": {
			post: run(post, "a", v1alpha1.HookRunPhaseInProgress, owed, began(-720*time.Hour)),
			owed: metav1.ConditionTrue, reason: v1alpha1.ReasonCleanupPending, again: time.Minute,
		},
		"its retries give it more time": {
			post: run(post, "a", v1alpha1.HookRunPhaseInProgress, owed, began(time.Minute), func(h *v1alpha1.HookRun) { h.Spec.Retries = 2 }),
			owed: metav1.ConditionTrue, reason: v1alpha1.ReasonCleanupPending, again: 2 * time.Minute,
		},
		"it is done": {
			post: run(post, "a", v1alpha1.HookRunPhaseCompleted, owed), done: true,
			owed: metav1.ConditionFalse, reason: v1alpha1.ReasonCleanupDone,
		},
		"its HookRun is lost": {
			post: run(post, "a", v1alpha1.HookRunPhaseFailed, owed), owed: metav1.ConditionTrue,
			reason: v1alpha1.ReasonCleanupLost, stalled: true, again: time.Minute,
		},
		"its HookRun is lost, and that is acknowledged": {
			post: run(post, "a", v1alpha1.HookRunPhaseFailed, owed), abandoned: true, done: true,
			owed: metav1.ConditionFalse, reason: v1alpha1.ReasonCleanupAbandoned,
		},
		"abandoned, and not ended yet": {
			post: run(post, "a", v1alpha1.HookRunPhaseInProgress, owed, began(time.Second)), abandoned: true,
			owed: metav1.ConditionTrue, reason: v1alpha1.ReasonCleanupPending, again: 59 * time.Second,
		},
		"abandoned": {
			post: run(post, "a", v1alpha1.HookRunPhaseCancelled, owed), abandoned: true, done: true,
			owed: metav1.ConditionFalse, reason: v1alpha1.ReasonCleanupAbandoned,
		},
		"a user skipped it": {
			post: run(post, "a", v1alpha1.HookRunPhaseSkipped, owed, began(time.Second), skippedByUser), done: true,
			owed: metav1.ConditionFalse, reason: v1alpha1.ReasonCleanupAbandoned, message: "abandoned: PostBackup action a (Skipped by jane: it was dropped)",
		},
		"a user skipped it before its turn": {
			post: run(post, "a", v1alpha1.HookRunPhaseSkipped, owed, skippedByUser), done: true,
			owed: metav1.ConditionFalse, reason: v1alpha1.ReasonCleanupAbandoned,
		},
		"a user skipped it, and its HookRun is lost": {
			post: BackupKind.reconstructHookRun(
				&v1alpha1.Backup{Status: v1alpha1.BackupStatus{PreBackupActionsStatuses: &[]v1alpha1.ActionStatus{{PluginName: "a"}}}}, post,
				v1alpha1.ActionStatus{PluginName: "a", Message: "Skipped by jane: it was dropped", CompletionTimestamp: &metav1.Time{Time: noon}}),
			done: true, owed: metav1.ConditionFalse, reason: v1alpha1.ReasonCleanupAbandoned,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope(BackupKind, queued("b", 0))
			s.Pre, s.Post = []*v1alpha1.HookRun{quiesced}, []*v1alpha1.HookRun{tc.post}
			s.markCleanupOwed(quiesced)
			s.RecordOutcome(Outcome{v1alpha1.RunPhaseCompleted, v1alpha1.ReasonCompleted, "3 objects"}, noon)
			if got := s.updateCleanupOwed(noon, tc.abandoned); got != tc.done {
				t.Errorf("no clean-up owed: %v, want %v", got, tc.done)
			}
			c := conditions.Get(s.Object, v1alpha1.ConditionCleanupOwed)
			if tc.message != "" && c.Message != tc.message {
				t.Errorf("the message is %q, want %q", c.Message, tc.message)
			}
			if c.Status != tc.owed || c.Reason != tc.reason {
				t.Errorf("CleanupOwed is %s, %s (%s); want %s, %s", c.Status, c.Reason, c.Message, tc.owed, tc.reason)
			}
			if got := conditions.IsTrue(s.Object, v1alpha1.ConditionStalled); got != tc.stalled {
				t.Errorf("Stalled is %v, want %v", got, tc.stalled)
			}
			if tc.stalled && !strings.Contains(s.Object.Status.Message, v1alpha1.AnnotationAbandonCleanup) {
				t.Errorf("the message does not say what to do: %s", s.Object.Status.Message)
			}
			if s.requeue != tc.again {
				t.Errorf("requeued after %v, want %v", s.requeue, tc.again)
			}
			if IsFinalized(s.Object) {
				t.Error("a Backup that was not finished counts as finalized")
			}
		})
	}
}

// TestHasExhaustedRetries checks that attempts interrupted by the end of an operator do not
// count.
func TestHasExhaustedRetries(t *testing.T) {
	t.Parallel()
	now := v1alpha1.NewMicroTime(noon)
	for name, tc := range map[string]struct {
		owed     bool
		failures int32
		want     bool
	}{
		"it failed as often as allowed": {owed: true, failures: 2, want: true},
		"it was interrupted":            {owed: true, failures: 1},
		"it is not owed":                {failures: 2},
	} {
		run := &v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{Owed: tc.owed, Retries: 1}}
		run.Status.Attempt, run.Status.Failures = 9, tc.failures
		run.Status.Attempts = []v1alpha1.HookAttempt{{Number: 9, CompletionTimestamp: &now}}
		if got := hasExhaustedRetries(run); got != tc.want {
			t.Errorf("%s: exhausted: %v, want %v", name, got, tc.want)
		}
	}
}

// TestIsCancelRequestedAfterOutcome distinguishes two cancel requests: one before the outcome
// ends the work, and a later one ends the actions that are running then.
func TestIsCancelRequestedAfterOutcome(t *testing.T) {
	cancel := func(s *Scope[*v1alpha1.Backup]) {
		s.Object.Spec.DesiredState = v1alpha1.DesiredStateCancel
		s.Object.Generation++
	}
	decide := func(s *Scope[*v1alpha1.Backup]) {
		s.RecordOutcome(Outcome{v1alpha1.RunPhaseCompleted, v1alpha1.ReasonCompleted, "3 objects"}, noon)
	}
	for name, tc := range map[string]struct {
		steps []func(*Scope[*v1alpha1.Backup])
		run   *v1alpha1.HookRun
		want  bool
	}{
		"no request":      {steps: []func(*Scope[*v1alpha1.Backup]){decide}, run: run(post, "a", v1alpha1.HookRunPhaseInProgress)},
		"a later request": {steps: []func(*Scope[*v1alpha1.Backup]){decide, cancel}, run: run(post, "a", v1alpha1.HookRunPhaseInProgress), want: true},
		"a request before, and the work was done": {steps: []func(*Scope[*v1alpha1.Backup]){cancel, decide}, run: run(post, "a", v1alpha1.HookRunPhaseInProgress)},
		"owed": {steps: []func(*Scope[*v1alpha1.Backup]){decide, cancel}, run: run(post, "a", v1alpha1.HookRunPhaseInProgress, owed)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope(BackupKind, queued("b", 0))
			for _, step := range tc.steps {
				step(s)
			}
			if got := s.isCancelRequestedAfterOutcome(tc.run); got != tc.want {
				t.Errorf("cancel requested: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNewActionStatuses(t *testing.T) {
	if newActionStatuses(nil) != nil {
		t.Error("without actions there must be no list")
	}
	var phases []v1alpha1.ActionPhase
	for _, phase := range []v1alpha1.HookRunPhase{
		"", v1alpha1.HookRunPhasePending, v1alpha1.HookRunPhaseSkipped, v1alpha1.HookRunPhaseInProgress,
		v1alpha1.HookRunPhaseCompleted, v1alpha1.HookRunPhaseFailed, v1alpha1.HookRunPhaseCancelled,
	} {
		phases = append(phases, (*newActionStatuses([]*v1alpha1.HookRun{run(pre, "a", phase)}))[0].Phase)
	}
	want := []v1alpha1.ActionPhase{
		"", "", "", v1alpha1.ActionPhaseInProgress,
		v1alpha1.ActionPhaseCompleted, v1alpha1.ActionPhaseFailed, v1alpha1.ActionPhaseFailed,
	}
	if !slices.Equal(phases, want) {
		t.Errorf("phases %q, want %q", phases, want)
	}
}

// TestIsFinalized checks that a run is not finalized before its end, for each way to be unfinished.
func TestIsFinalized(t *testing.T) {
	s := newScope(BackupKind, queued("b", 0))
	s.MarkRunning(v1alpha1.ReasonArchiving, "Archiving")
	if IsFinalized(s.Object) {
		t.Error("a running Backup counts as finalized")
	}
	s.RecordOutcome(Outcome{v1alpha1.RunPhaseFailed, v1alpha1.ReasonFailed, "the store is full"}, noon)
	if IsFinalized(s.Object) || s.Object.Status.FailureReason != "the store is full" {
		t.Errorf("after the outcome: finalized %v, failureReason %q", IsFinalized(s.Object), s.Object.Status.FailureReason)
	}
	s.MarkFinalized()
	if !IsFinalized(s.Object) || !conditions.IsTrue(s.Object, v1alpha1.ConditionStalled) || conditions.IsTrue(s.Object, v1alpha1.ConditionReady) {
		t.Errorf("after the end: finalized %v, %+v", IsFinalized(s.Object), s.Object.Status.Conditions)
	}
}

func TestFailValidation_ManyErrors(t *testing.T) {
	s := newScope(BackupKind, queued("b", 0))
	var errs []string
	for range 100 {
		errs = append(errs, strings.Repeat("ä", 3000))
	}
	s.FailValidation(errs, noon)
	status := s.Object.Status
	if len(status.ValidationErrors) != MaxMessages || status.ValidationErrors[MaxMessages-1] != "and 37 more" {
		t.Errorf("%d errors, the last is %q", len(status.ValidationErrors), status.ValidationErrors[len(status.ValidationErrors)-1])
	}
	for _, text := range append(status.ValidationErrors, status.Message) {
		if len(text) > maxMessageBytes || strings.ContainsRune(text, '\uFFFD') {
			t.Errorf("a message has %d bytes or half a character", len(text))
		}
	}
}

// TestRunPreActions_Skipped checks that a run continues without a Pre action that a user skipped, with a
// warning. A Pre action that a user canceled ends the run.
func TestRunPreActions_Skipped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		run          *v1alpha1.HookRun
		wantFinished bool
		wantWarnings []string
	}{
		"skipped": {
			run:          run(pre, "a", v1alpha1.HookRunPhaseSkipped, skippedByUser),
			wantWarnings: []string{"PreBackup action a: Skipped by jane: it was dropped"},
		},
		"canceled": {run: run(pre, "a", v1alpha1.HookRunPhaseSkipped), wantFinished: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := driverWith(t, nil)
			d.queue = newQueue(1, func(types.NamespacedName) {})
			s := newScope(BackupKind, begun(0))
			s.Pre = []*v1alpha1.HookRun{tc.run}
			done, err := d.RunPreActions(t.Context(), s)
			if !done || err != nil || IsFinished(s.Object) != tc.wantFinished {
				t.Errorf("done: %t, %v, and the run is finished: %t; want %t", done, err, IsFinished(s.Object), tc.wantFinished)
			}
			if diff := cmp.Diff(tc.wantWarnings, IgnoredFailureWarnings(s.Pre)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMarkCleanupOwed checks that an action which starts owes its clean-up, unless a user has skipped that.
func TestMarkCleanupOwed(t *testing.T) {
	t.Parallel()
	first := run(pre, "a", v1alpha1.HookRunPhasePending)
	for name, tc := range map[string]struct {
		post *v1alpha1.HookRun
		want bool
	}{
		"waiting": {post: run(post, "a", v1alpha1.HookRunPhasePending, owed), want: true},
		"skipped": {post: run(post, "a", v1alpha1.HookRunPhaseSkipped, owed, skippedByUser)},
	} {
		s := newScope(BackupKind, begun(0))
		s.Pre, s.Post = []*v1alpha1.HookRun{first}, []*v1alpha1.HookRun{tc.post}
		s.markCleanupOwed(first)
		if got := conditions.IsTrue(s.Object, v1alpha1.ConditionCleanupOwed); got != tc.want {
			t.Errorf("%s: clean-up is owed: %t, want %t", name, got, tc.want)
		}
	}
}

// TestRunDataCapturedActions checks which actions run while operations are in progress.
func TestRunDataCapturedActions(t *testing.T) {
	early := func(h *v1alpha1.HookRun) { h.Spec.RunAfter = v1alpha1.RunAfterDataCaptured }
	thaw := func(phase v1alpha1.HookRunPhase, change ...func(*v1alpha1.HookRun)) *v1alpha1.HookRun {
		return run(post, "thaw", phase, append(change, early, owed)...)
	}
	for name, tc := range map[string]struct {
		archiving bool
		capturing int32
		cancel    bool
		post      []*v1alpha1.HookRun
		want      []string // the actions that are started
		running   string
	}{
		"while objects are archived":  {archiving: true, post: []*v1alpha1.HookRun{thaw("")}},
		"while an operation captures": {capturing: 1, post: []*v1alpha1.HookRun{thaw("")}},
		"all is captured": {
			post: []*v1alpha1.HookRun{thaw(""), run(post, "notify", "")}, want: []string{"thaw"}, running: "running PostBackup action thaw",
		},
		"canceled while an operation captures": {
			capturing: 1, cancel: true, post: []*v1alpha1.HookRun{thaw("")}, want: []string{"thaw"}, running: "running PostBackup action thaw",
		},
		"canceled while objects are archived": {archiving: true, cancel: true, post: []*v1alpha1.HookRun{thaw("")}},
		"one after the other": {
			post: []*v1alpha1.HookRun{thaw(v1alpha1.HookRunPhaseInProgress), run(post, "resume", "", early)}, running: "running PostBackup action thaw",
		},
		"the next one": {
			post: []*v1alpha1.HookRun{thaw(v1alpha1.HookRunPhaseCompleted), run(post, "resume", "", early), run(post, "notify", "")},
			want: []string{"resume"}, running: "running PostBackup action resume",
		},
		"all have ended": {post: []*v1alpha1.HookRun{thaw(v1alpha1.HookRunPhaseCompleted), run(post, "notify", "")}},
		"none":           {post: []*v1alpha1.HookRun{run(post, "notify", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			b := queued("nightly", 0)
			if !tc.archiving {
				conditions.Set(b, v1alpha1.ConditionItemsProcessed, metav1.ConditionTrue, "x", "x")
			}
			b.Status.Operations = &v1alpha1.OperationCounts{Attempted: 2, Capturing: tc.capturing}
			if tc.cancel {
				b.Spec.DesiredState = v1alpha1.DesiredStateCancel
			}
			var objects []client.Object
			for _, h := range tc.post {
				h.Namespace = b.Namespace
				objects = append(objects, h)
			}
			d, s := driverWith(t, nil, objects...), newScope(BackupKind, b)
			s.Pre, s.Post = []*v1alpha1.HookRun{run(pre, "thaw", v1alpha1.HookRunPhaseCompleted)}, tc.post
			if got := d.runDataCapturedActions(s); got != tc.running {
				t.Errorf("%q is running, want %q", got, tc.running)
			}
			var started []string
			for _, act := range s.afterUpdate {
				if err := act(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, h := range tc.post {
				stored := &v1alpha1.HookRun{}
				if err := d.Client.Get(t.Context(), client.ObjectKeyFromObject(h), stored); err != nil {
					t.Fatal(err)
				}
				if stored.Spec.DesiredState == v1alpha1.HookDesiredStateRun && h.Status.Phase == "" {
					started = append(started, h.Name)
				}
			}
			if !slices.Equal(started, tc.want) {
				t.Errorf("started %q, want %q", started, tc.want)
			}
		})
	}
}
