// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	"k8s.io/utils/lru"
)

// DefaultSamplingRate traces every run. Unlike requests to an API server, runs are few.
const DefaultSamplingRate = 1000000

// numRemembered is how many exported spans are remembered, in order not to export them again.
const numRemembered = 8192

// Tracer exports spans. It is safe for concurrent use and never blocks: spans that a slow collector does not accept
// are dropped. A nil Tracer exports nothing.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	// samplingLimit is the smallest random number of a run that is not traced.
	samplingLimit uint64
	// exported has the spans that this process exported.
	exported *lru.Cache
}

// New returns a Tracer that sends spans to the endpoint of a configuration, without TLS, as Kubernetes components do.
// Without an endpoint, the Tracer is nil.
func New(ctx context.Context, config tracingv1.TracingConfiguration, version string) (*Tracer, error) {
	if err := tracingv1.ValidateTracingConfiguration(&config, nil, field.NewPath("tracing")).ToAggregate(); err != nil {
		return nil, err
	}
	if config.Endpoint == nil || *config.Endpoint == "" {
		return nil, nil
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(*config.Endpoint), otlptracegrpc.WithInsecure())
	if err != nil {
		return nil, fmt.Errorf("creating the exporter of traces: %w", err)
	}
	// Variables of the environment, such as OTEL_RESOURCE_ATTRIBUTES, have precedence.
	service, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "grapnel"),
		attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("reading the attributes of traces: %w", err)
	}
	rate := int32(DefaultSamplingRate)
	if config.SamplingRatePerMillion != nil {
		rate = *config.SamplingRatePerMillion
	}
	return newTracer(rate, sdktrace.WithBatcher(exporter), sdktrace.WithResource(service)), nil
}

func newTracer(samplingRatePerMillion int32, options ...sdktrace.TracerProviderOption) *Tracer {
	provider := sdktrace.NewTracerProvider(append(options,
		sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(idsFromContext{}))...)
	return &Tracer{
		provider: provider, tracer: provider.Tracer("github.com/grapnel-dev/grapnel"),
		samplingLimit: uint64(float64(samplingRatePerMillion) / 1e6 * (1 << randomBits)), exported: lru.New(numRemembered),
	}
}

// Shutdown sends the remaining spans, and returns at the latest when ctx ends.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// randomBits is how many of the last bits of a trace ID are random: W3C Trace Context level 2 and random UUIDs have
// that in common. The SDK's sampler would take bits that are the same in all UUIDs for random ones.
const randomBits = 56

// samples reports whether a run is traced. Every operator decides the same.
func (t *Tracer) samples(run types.UID) bool {
	if t == nil {
		return false
	}
	id := traceID(run)
	return binary.BigEndian.Uint64(id[8:])&(1<<randomBits-1) < t.samplingLimit
}

// span is what the operator exports.
type span struct {
	run        types.UID
	id, parent trace.SpanID
	name       string
	start, end time.Time
	attributes []attribute.KeyValue
	// failure is a reason if the span did not succeed.
	failure string
}

// exportedSpan identifies a span that was exported. A run that a user resumed after its end has another end.
type exportedSpan struct {
	id  trace.SpanID
	end int64
}

// isExported reports whether this process exported a span already.
func (t *Tracer) isExported(id trace.SpanID, end time.Time) bool {
	_, is := t.exported.Get(exportedSpan{id, end.UnixMicro()})
	return is
}

// export exports a span, unless this process did already.
func (t *Tracer) export(ctx context.Context, s span) {
	if t.isExported(s.id, s.end) {
		return
	}
	t.exported.Add(exportedSpan{s.id, s.end.UnixMicro()}, nil)
	ctx = context.WithValue(ctx, spanIDKey{}, s.id)
	ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID(s.run), SpanID: s.parent, TraceFlags: trace.FlagsSampled,
	}))
	_, out := t.tracer.Start(ctx, s.name, trace.WithTimestamp(s.start), trace.WithAttributes(s.attributes...))
	if s.failure != "" {
		out.SetStatus(codes.Error, s.failure)
	}
	out.End(trace.WithTimestamp(s.end))
}
