// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// The names under which others get a traceparent (https://www.w3.org/TR/trace-context).
const (
	// Header is the name of the HTTP header, and of the metadata of a gRPC call.
	Header = "traceparent"
	// EnvVar is the environment variable of Jobs (https://opentelemetry.io/docs/specs/otel/context/env-carriers).
	EnvVar = "TRACEPARENT"
)

// traceparentKey is the context key of a traceparent.
type traceparentKey struct{}

// Traceparent returns the traceparent that work with a context passes on; empty if tracing is off.
func Traceparent(ctx context.Context) string {
	value, _ := ctx.Value(traceparentKey{}).(string) // empty if it is not set
	return value
}

// WithStage returns a context for work in the current stage of a run, which is the last one of its timeline.
func (t *Tracer) WithStage(ctx context.Context, run types.UID, timeline []v1alpha1.RunStage) context.Context {
	if t == nil {
		return ctx
	}
	if len(timeline) == 0 {
		return t.withTraceparent(ctx, run, runSpanID(run))
	}
	return t.withTraceparent(ctx, run, stageSpanID(run, &timeline[len(timeline)-1]))
}

// WithAttempt returns a context for the last attempt of a HookRun.
func (t *Tracer) WithAttempt(ctx context.Context, run *v1alpha1.HookRun) context.Context {
	if t == nil {
		return ctx
	}
	return t.withTraceparent(ctx, types.UID(run.Spec.ParentRef.UID), attemptSpanID(run.UID, run.Status.Attempt))
}

// WithOperation returns a context for calls about an operation of a run.
func (t *Tracer) WithOperation(ctx context.Context, run, operation types.UID) context.Context {
	if t == nil {
		return ctx
	}
	return t.withTraceparent(ctx, run, operationSpanID(operation))
}

// withTraceparent returns a context with a traceparent. That of a run that is not sampled tells others not to sample
// it, either.
func (t *Tracer) withTraceparent(ctx context.Context, run types.UID, id trace.SpanID) context.Context {
	flags := trace.TraceFlags(0).WithSampled(t.samples(run))
	return context.WithValue(ctx, traceparentKey{}, "00-"+traceID(run).String()+"-"+id.String()+"-"+flags.String())
}
