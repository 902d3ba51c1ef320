// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"golang.org/x/time/rate"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/internal/tracing"
)

// tracingOptions are the two settings of a TracingConfiguration, which kube-apiserver and the kubelet read from files that
// they have for many settings. The operator has only flags, and so does etcd for its traces.
type tracingOptions struct {
	endpoint     string
	samplingRate int64
}

func (o *tracingOptions) bindFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.endpoint, "tracing-endpoint", "", "address of an OpenTelemetry collector (OTLP over gRPC without TLS) "+
		"that gets a trace of each run, for example collector.monitoring:4317; if empty, there are no traces")
	flags.Int64Var(&o.samplingRate, "tracing-sampling-rate-per-million", tracing.DefaultSamplingRate, "how many of a million runs have a trace")
}

// newTracer returns the tracer that the flags describe; nil if tracing is off.
func (o *tracingOptions) newTracer(ctx context.Context) (*tracing.Tracer, error) {
	perMillion := int32(min(max(o.samplingRate, -1), math.MaxInt32))
	tracer, err := tracing.New(ctx, tracingv1.TracingConfiguration{Endpoint: &o.endpoint, SamplingRatePerMillion: &perMillion}, version)
	if err != nil {
		return nil, fmt.Errorf("--tracing-endpoint, --tracing-sampling-rate-per-million: %w", err)
	}
	return tracer, nil
}

// setTracingLogger logs what the exporter of traces cannot return: it works in the background.
func setTracingLogger(logger logr.Logger) {
	otel.SetLogger(logger)
	otel.SetErrorHandler(newTracingErrorHandler(logger))
}

// newTracingErrorHandler returns a handler that logs one of many errors: while a collector is down, each batch of spans has one.
func newTracingErrorHandler(logger logr.Logger) otel.ErrorHandler {
	seldom := &rate.Sometimes{First: 1, Interval: 10 * time.Minute}
	return otel.ErrorHandlerFunc(func(err error) {
		seldom.Do(func() { logger.Info("Exporting traces failed; runs continue without them", "error", err.Error()) })
	})
}

// stopTracing sends the last spans. A collector that is down must not delay the next operator for long.
func stopTracing(ctx context.Context, tracer *tracing.Tracer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := tracer.Shutdown(ctx); err != nil {
		ctrl.Log.Info("Sending the last traces failed", "error", err.Error())
	}
}
