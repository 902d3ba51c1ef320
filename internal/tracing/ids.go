// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"crypto/sha256"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// traceID returns the trace ID of a run: its UID without hyphens, by which users find the trace.
func traceID(run types.UID) trace.TraceID {
	id, err := trace.TraceIDFromHex(strings.ReplaceAll(string(run), "-", ""))
	if err != nil { // the API promises UIDs that are unique, not that they are UUIDs
		sum := sha256.Sum256([]byte(run))
		copy(id[:], sum[:])
	}
	return id
}

// newSpanID derives a span ID from what identifies the span.
func newSpanID(parts ...string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	copy(id[:], sum[:])
	return id
}

func runSpanID(run types.UID) trace.SpanID { return newSpanID("run", string(run)) }

// stageSpanID tells stages of the same name apart by their start: older ones may be removed from the timeline.
func stageSpanID(run types.UID, stage *v1alpha1.RunStage) trace.SpanID {
	return newSpanID("stage", string(run), stage.Name, strconv.FormatInt(stage.StartTimestamp.UnixMicro(), 10))
}

func attemptSpanID(hookRun types.UID, attempt int32) trace.SpanID {
	return newSpanID("attempt", string(hookRun), strconv.Itoa(int(attempt)))
}

func operationSpanID(operation types.UID) trace.SpanID {
	return newSpanID("operation", string(operation))
}

// spanIDKey is the context key of the ID of the next span.
type spanIDKey struct{}

// idsFromContext gives a span the ID in its context instead of a random one.
type idsFromContext struct{}

var _ sdktrace.IDGenerator = idsFromContext{}

// NewIDs implements sdktrace.IDGenerator.
func (g idsFromContext) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id := trace.SpanContextFromContext(ctx).TraceID()
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (idsFromContext) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	id, _ := ctx.Value(spanIDKey{}).(trace.SpanID) // export sets it
	return id
}
