// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// newAttributes returns the attributes of the object that a span is about. Names of objects and reasons are all that a
// trace has: messages may contain anything.
func newAttributes(kind string, object metav1.Object, more ...attribute.KeyValue) []attribute.KeyValue {
	return append([]attribute.KeyValue{
		attribute.String("grapnel.kind", kind), attribute.String("grapnel.namespace", object.GetNamespace()),
		attribute.String("grapnel.name", object.GetName()),
	}, more...)
}

// failure returns the reason of a span that did not succeed.
func failure(succeeded bool, reason string) string {
	if succeeded {
		return ""
	}
	return reason
}

// Run is a Backup, Restore or DeletionRun.
type Run interface {
	metav1.Object
	Run() *v1alpha1.RunStatus
	GetPhase() v1alpha1.RunPhase
	GetConditions() []metav1.Condition
}

// ExportStages exports the stages of a run that have ended.
func (t *Tracer) ExportStages(ctx context.Context, kind string, run Run) {
	if !t.samples(run.GetUID()) {
		return
	}
	timeline := run.Run().Timeline
	for i := range timeline {
		stage := &timeline[i]
		if stage.CompletionTimestamp == nil {
			continue
		}
		t.export(ctx, span{
			run: run.GetUID(), id: stageSpanID(run.GetUID(), stage), parent: runSpanID(run.GetUID()),
			name: stage.Name, start: stage.StartTimestamp.Time, end: stage.CompletionTimestamp.Time,
			attributes: newAttributes(kind, run), failure: stageFailure(run, i),
		})
	}
}

// stageFailure returns why a stage that has ended failed; empty if it did not. A failure is in a condition that became False at
// the end of the stage: in the first stage that had not ended before. The API truncates that time to seconds, so an operator
// that takes over may blame an earlier stage that ended in the same second.
func stageFailure(run Run, i int) string {
	timeline := run.Run().Timeline
	for _, name := range []string{v1alpha1.ConditionSucceeded, v1alpha1.ConditionPostActionsSucceeded} {
		c := meta.FindStatusCondition(run.GetConditions(), name)
		if c == nil || c.Status != metav1.ConditionFalse {
			continue
		}
		failed := c.LastTransitionTime.Truncate(time.Microsecond) // as times of stages
		if !timeline[i].CompletionTimestamp.Time.Before(failed) && (i == 0 || timeline[i-1].CompletionTimestamp.Time.Before(failed)) {
			return c.Reason
		}
	}
	return ""
}

// ExportRun exports a run that is finalized.
func (t *Tracer) ExportRun(ctx context.Context, kind string, run Run) {
	if !t.samples(run.GetUID()) {
		return
	}
	status, phase, reason := run.Run(), run.GetPhase(), ""
	start, end := run.GetCreationTimestamp().Time, status.CompletionTimestamp.Time
	if stages := len(status.Timeline); stages > 0 {
		start = status.Timeline[0].StartTimestamp.Time
		if last := status.Timeline[stages-1].CompletionTimestamp; last != nil {
			end = last.Time
		}
	}
	if c := meta.FindStatusCondition(run.GetConditions(), v1alpha1.ConditionSucceeded); c != nil {
		reason = c.Reason
	}
	t.export(ctx, span{
		run: run.GetUID(), id: runSpanID(run.GetUID()), name: kind, start: start, end: end,
		attributes: newAttributes(kind, run, attribute.String("grapnel.phase", string(phase)), attribute.String("grapnel.reason", reason)),
		failure:    failure(phase == v1alpha1.RunPhaseCompleted, reason),
	})
}

// ExportAttempts exports the attempts of a HookRun that have ended. The function readTimeline returns the timeline of
// the run; it is called at most once, and only if an attempt was not exported yet.
func (t *Tracer) ExportAttempts(ctx context.Context, run *v1alpha1.HookRun, readTimeline func() []v1alpha1.RunStage) {
	parent := types.UID(run.Spec.ParentRef.UID)
	if !t.samples(parent) {
		return
	}
	readTimeline = sync.OnceValue(readTimeline)
	for i := range run.Status.Attempts {
		attempt := &run.Status.Attempts[i]
		id := attemptSpanID(run.UID, attempt.Number)
		if attempt.CompletionTimestamp == nil || t.isExported(id, attempt.CompletionTimestamp.Time) {
			continue
		}
		attributes := newAttributes("HookRun", run,
			attribute.String("grapnel.action", run.Spec.ActionName), attribute.Int("grapnel.attempt", int(attempt.Number)))
		if attempt.Reason != "" {
			attributes = append(attributes, attribute.String("grapnel.reason", attempt.Reason))
		}
		t.export(ctx, span{
			run: parent, id: id, parent: stageSpanIDAt(parent, readTimeline(), attempt.StartTimestamp.Time),
			name:  string(run.Spec.Hook) + " " + run.Spec.ActionName,
			start: attempt.StartTimestamp.Time, end: attempt.CompletionTimestamp.Time,
			attributes: attributes, failure: attempt.Reason,
		})
	}
}

// stageSpanIDAt returns the ID of the stage that a run was in at a time; that of the run if the timeline does not
// show it.
func stageSpanIDAt(run types.UID, timeline []v1alpha1.RunStage, at time.Time) trace.SpanID {
	id := runSpanID(run)
	for i := range timeline {
		if !timeline[i].StartTimestamp.After(at) {
			id = stageSpanID(run, &timeline[i])
		}
	}
	return id
}

// ExportOperation exports an operation that has ended. It is a child of its run, whose stages it may outlive. reason is
// that of its outcome.
func (t *Tracer) ExportOperation(ctx context.Context, operation *v1alpha1.AsyncOperation, reason string) {
	run := types.UID(operation.Spec.ParentRef.UID)
	if !t.samples(run) {
		return
	}
	start := operation.CreationTimestamp.Time
	if reported := operation.Status.StartTimestamp; reported != nil {
		start = reported.Time
	}
	t.export(ctx, span{
		run: run, id: operationSpanID(operation.UID), parent: runSpanID(run),
		name:  string(operation.Spec.Kind) + " " + operation.Spec.ActionName,
		start: start, end: operation.Status.CompletionTimestamp.Time,
		attributes: newAttributes("AsyncOperation", operation, attribute.String("grapnel.action", operation.Spec.ActionName),
			attribute.String("grapnel.phase", string(operation.Status.Phase)), attribute.String("grapnel.reason", reason)),
		failure: failure(operation.Status.Phase == v1alpha1.AsyncOperationPhaseCompleted, reason),
	})
}
