// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// Timeline is a run over time. Its texts come from a cluster and may have control characters; the methods that draw it
// remove them.
type Timeline struct {
	// Name is the kind and the name of the run.
	Name  string
	Phase v1alpha1.RunPhase
	// Start is the first known time of the run, and End the last one, or now while the run works. Every Span is between
	// them.
	Start, End time.Time
	// Running means that the run has not finished.
	Running bool
	// Sections have at least one row each.
	Sections []Section
}

const (
	stagesSection     = "Stages"
	hooksSection      = "Hooks"
	operationsSection = "Operations"
)

// Section is a group of rows.
type Section struct {
	Name string
	Rows []Row
}

// Row is one line of the picture.
type Row struct {
	// Label is the name of a stage, an action, an attempt or operations.
	Label string
	// Detail is what became of it.
	Detail string
	State  State
	// IsAttempt means that the row is an attempt of the hook above.
	IsAttempt bool
	// Spans are sorted. There are none if nothing has started.
	Spans []Span
	// Duration is the sum of the Spans of a stage, and otherwise the time from the first start to the last end.
	Duration time.Duration
}

// describeRow returns the label and what became of it, with a mark, so that it needs no color.
func (r *Row) describeRow() string {
	s := stateMark(r.State) + r.Label
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return s
}

// durationText returns the duration; empty if nothing has started.
func (r *Row) durationText() string {
	if len(r.Spans) == 0 {
		return ""
	}
	return FormatDuration(r.Duration)
}

// stateMark returns what is before a label, so that it is there even if the label is cut.
func stateMark(state State) string {
	switch state {
	case StateFailed:
		return "✗ "
	case StateSucceeded:
		return "✓ "
	case StateRunning:
		return "… "
	case StatePassed, StateStopped, StatePending:
	}
	return ""
}

// Span is a time during which something ran.
type Span struct {
	Start, End time.Time
	State      State
}

// State determines the color and the mark of a Span or Row.
type State string

// The states.
const (
	// StatePassed means that a stage has ended.
	StatePassed    State = "passed"
	StateSucceeded State = "succeeded"
	StateFailed    State = "failed"
	// StateStopped means that something was canceled, interrupted or skipped.
	StateStopped State = "stopped"
	StateRunning State = "running"
	// StatePending means that something has not started.
	StatePending State = "pending"
)

// Run is a Backup or Restore.
type Run interface {
	metav1.Object
	Run() *v1alpha1.RunStatus
	GetPhase() v1alpha1.RunPhase
}

// Build returns the Timeline of a run of a kind at the time now, with its HookRuns in their order and its operations.
// Times that a plugin reported, and that are not during the run, are moved to its start or end.
func Build(kind string, r Run, hooks []v1alpha1.HookRun, operations []v1alpha1.AsyncOperation, now time.Time) Timeline {
	t := Timeline{Name: kind + " " + r.GetName(), Phase: cmp.Or(r.GetPhase(), v1alpha1.RunPhaseNew), Running: isRunning(r.Run())}
	for _, section := range []Section{
		{stagesSection, stageRows(r.Run().Timeline)}, {hooksSection, hookRows(hooks)}, {operationsSection, operationRows(operations)},
	} {
		if len(section.Rows) > 0 {
			t.Sections = append(t.Sections, section)
		}
	}
	t.Start, t.End = timeBounds(r, t.Sections)
	if t.Running && now.After(t.End) {
		t.End = now
	}
	for _, section := range t.Sections {
		for i := range section.Rows {
			row := &section.Rows[i]
			row.fitInto(t.Start, t.End)
			if n := len(row.Spans); n > 0 && section.Name != stagesSection {
				row.Duration = row.Spans[n-1].End.Sub(row.Spans[0].Start) // includes the back-off between attempts
			}
		}
	}
	return t
}

// isRunning reports whether a run works or waits. A run of an earlier version of the operator has no stages.
func isRunning(status *v1alpha1.RunStatus) bool {
	if n := len(status.Timeline); n > 0 {
		return status.Timeline[n-1].CompletionTimestamp == nil
	}
	return status.CompletionTimestamp == nil
}

// timeBounds returns the first and the last time that the operator recorded. The start of an operation is not one of
// them, because its plugin reports it.
func timeBounds(r Run, sections []Section) (start, end time.Time) {
	status := r.Run()
	for _, section := range sections {
		for _, row := range section.Rows {
			for _, span := range row.Spans {
				if section.Name != operationsSection && (start.IsZero() || span.Start.Before(start)) {
					start = span.Start
				}
				end = latestTime(end, span.End)
			}
		}
	}
	switch {
	case !start.IsZero():
	case status.StartTimestamp != nil:
		start = status.StartTimestamp.Time
	default:
		start = r.GetCreationTimestamp().Time
	}
	if len(status.Timeline) == 0 && status.CompletionTimestamp != nil {
		end = latestTime(end, status.CompletionTimestamp.Time)
	}
	return start, latestTime(start, end)
}

func latestTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fitInto ends the Spans that are open, moves all of them between two times, and adds up the Duration.
func (r *Row) fitInto(start, end time.Time) {
	within := func(t time.Time) time.Time {
		if t.After(end) {
			return end
		}
		return latestTime(t, start)
	}
	for i := range r.Spans {
		span := &r.Spans[i]
		if span.End.IsZero() {
			span.End = end
		}
		span.End = within(span.End)
		if span.Start = within(span.Start); span.Start.After(span.End) {
			span.Start = span.End
		}
		r.Duration += span.End.Sub(span.Start)
	}
}

// newSpan returns a Span. Its end is zero until fitInto if it is nil.
func newSpan(start time.Time, end *v1alpha1.MicroTime, state State) Span {
	span := Span{Start: start, State: state}
	if end != nil {
		span.End = end.Time
	}
	return span
}

// stageRows returns a row for each stage. A stage that the run was in several times has several Spans.
func stageRows(stages []v1alpha1.RunStage) []Row {
	var rows []Row
	for _, stage := range stages {
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Label == stage.Name })
		if i < 0 {
			i = len(rows)
			rows = append(rows, Row{Label: stage.Name, State: StatePassed})
		}
		state := StatePassed
		if stage.CompletionTimestamp == nil {
			state = StateRunning
			rows[i].State, rows[i].Detail = state, "running"
		}
		rows[i].Spans = append(rows[i].Spans, newSpan(stage.StartTimestamp.Time, stage.CompletionTimestamp, state))
	}
	for i := range rows {
		if n := len(rows[i].Spans); n > 1 && rows[i].Detail == "" {
			rows[i].Detail = fmt.Sprintf("%d times", n)
		}
	}
	return rows
}

// hookRows returns a row for each HookRun, and below it one for each attempt if there are several.
func hookRows(hooks []v1alpha1.HookRun) []Row {
	var rows []Row
	for i := range hooks {
		h := &hooks[i]
		row := Row{Label: string(h.Spec.Hook) + " " + h.Spec.ActionName, State: HookState(h.Status.Phase)}
		row.Detail = hookDetail(h, row.State)
		var attempts []Row
		for j := range h.Status.Attempts {
			attempt := &h.Status.Attempts[j]
			state, detail := AttemptState(attempt)
			span := newSpan(attempt.StartTimestamp.Time, attempt.CompletionTimestamp, state)
			row.Spans = append(row.Spans, span)
			attempts = append(attempts, Row{
				Label: fmt.Sprintf("attempt %d", attempt.Number), Detail: detail, State: state, IsAttempt: true, Spans: []Span{span},
			})
		}
		rows = append(rows, row)
		if len(attempts) > 1 {
			rows = append(rows, attempts...)
		}
	}
	return rows
}

// hookDetail returns what the mark and the rows of the attempts do not say about a HookRun.
func hookDetail(h *v1alpha1.HookRun, state State) string {
	var parts []string
	if state != StateSucceeded {
		parts = append(parts, cmp.Or(string(h.Status.Phase), "not called"))
	}
	switch n := len(h.Status.Attempts); {
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d attempts", h.Status.Attempt))
	case n == 1 && state == StateFailed:
		parts = append(parts, h.Status.Attempts[0].Reason)
	}
	return strings.Join(parts, ", ")
}

// HookState returns the state of a HookRun.
func HookState(phase v1alpha1.HookRunPhase) State {
	switch phase {
	case v1alpha1.HookRunPhaseCompleted:
		return StateSucceeded
	case v1alpha1.HookRunPhaseFailed:
		return StateFailed
	case v1alpha1.HookRunPhaseCancelled, v1alpha1.HookRunPhaseSkipped:
		return StateStopped
	case v1alpha1.HookRunPhaseInProgress:
		return StateRunning
	case v1alpha1.HookRunPhasePending:
	}
	return StatePending
}

// AttemptState returns the state of an attempt, and what became of it.
func AttemptState(attempt *v1alpha1.HookAttempt) (State, string) {
	switch {
	case attempt.CompletionTimestamp == nil:
		return StateRunning, "running"
	case attempt.Reason == "":
		return StateSucceeded, "succeeded"
	case attempt.Reason == v1alpha1.ReasonInterrupted, attempt.Reason == v1alpha1.ReasonCancelled:
		return StateStopped, attempt.Reason
	}
	return StateFailed, attempt.Reason
}
