// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// traceCollector is an OpenTelemetry collector that does not respond until it is told to.
type traceCollector struct {
	collectorpb.UnimplementedTraceServiceServer

	address  string
	responds chan struct{}

	mu    sync.Mutex
	spans map[string]*tracepb.Span
}

func newTraceCollector(t testing.TB) *traceCollector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &traceCollector{address: listener.Addr().String(), responds: make(chan struct{}), spans: map[string]*tracepb.Span{}}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// Export implements TraceServiceServer.
func (c *traceCollector) Export(ctx context.Context, in *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	select {
	case <-c.responds:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range in.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans[string(span.GetSpanId())] = span
			}
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// listSpans returns the spans of a trace as "parent/name start end error", with times in microseconds, sorted, and their IDs
// by that text.
func (c *traceCollector) listSpans(trace string) (list []string, ids map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids = map[string]string{}
	for _, span := range c.spans {
		if hex.EncodeToString(span.GetTraceId()) != trace {
			continue
		}
		path := span.GetName()
		for parent := span.GetParentSpanId(); len(parent) > 0; parent = c.spans[string(parent)].GetParentSpanId() {
			path = c.spans[string(parent)].GetName() + "/" + path
		}
		text := fmt.Sprintf("%s %d %d %s", path, span.GetStartTimeUnixNano()/1000, span.GetEndTimeUnixNano()/1000, span.GetStatus().GetMessage())
		list = append(list, text)
		ids[text] = hex.EncodeToString(span.GetSpanId())
	}
	slices.Sort(list)
	return list, ids
}

var _ = Describe("Traces", Label("hooks"), func() {
	It("are complete after a crash, and do not hold up runs", func() {
		t := suite.Spec(GinkgoTB())
		collector := newTraceCollector(t)
		s, app := site{world.StartOperator(t, "--tracing-endpoint="+collector.address)}, world.CreateApp(t, 1)
		outcome(t, s.apply(t, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)

		goOn, give := signal(t)
		operate(t, app, "one", "steps:2")
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(pair, operates)
		parameter(b, pair, "fault", "until:"+goOn)
		s.apply(t, b)
		awaitCall(t, b, v1alpha1.HookPreBackup, pair)
		Eventually(func() []string { return callsOf(t, b) }).WithTimeout(patience).Should(HaveLen(1), "the call must be in the log")
		Expect(s.Operator.Kill()).To(Succeed())
		give()
		close(collector.responds)
		s.RestartOperator(t)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted)
		Expect(s.Operator.Stop()).To(Succeed())

		trace := strings.ReplaceAll(string(b.UID), "-", "")
		got, ids := collector.listSpans(trace)
		spanText := func(path string, start, end v1alpha1.MicroTime, failure string) string {
			return fmt.Sprintf("%s %d %d %s", path, start.UnixMicro(), end.UnixMicro(), failure)
		}
		traceparent := func(text string) string { return "00-" + trace + "-" + ids[text] + "-01" }
		var want, traceparents []string
		stages := b.Status.Timeline
		want = append(want, spanText("Backup", stages[0].StartTimestamp, *stages[len(stages)-1].CompletionTimestamp, ""))
		for _, stage := range stages {
			text := spanText("Backup/"+stage.Name, stage.StartTimestamp, *stage.CompletionTimestamp, "")
			want = append(want, text)
			if stage.Name == v1alpha1.ReasonArchiving {
				traceparents = append(traceparents, traceparent(text))
			}
		}
		for point, stage := range map[v1alpha1.HookPoint]string{
			v1alpha1.HookPreBackup: v1alpha1.ReasonRunningPreActions, v1alpha1.HookPostBackup: v1alpha1.ReasonRunningPostActions,
		} {
			for _, attempt := range runOf(t, b, point, pair).Status.Attempts {
				text := spanText(fmt.Sprintf("Backup/%s/%s %s", stage, point, pair), attempt.StartTimestamp, *attempt.CompletionTimestamp, attempt.Reason)
				want, traceparents = append(want, text), append(traceparents, traceparent(text))
			}
		}
		for _, o := range operationsOf(b) {
			start := v1alpha1.NewMicroTime(o.CreationTimestamp.Time)
			if o.Status.StartTimestamp != nil {
				start = *o.Status.StartTimestamp
			}
			want = append(want, spanText(fmt.Sprintf("Backup/%s %s", o.Spec.Kind, o.Spec.ActionName), start, *o.Status.CompletionTimestamp, ""))
		}
		slices.Sort(want)
		env.CheckEqual(t, "spans", got, want)
		sent := world.FaultPluginTraceparents(t, func(key string) bool {
			return strings.HasPrefix(key, string(b.UID)+"/") || slices.ContainsFunc(runsOf(b), func(run *v1alpha1.HookRun) bool { return string(run.UID) == key })
		})
		Expect(sent).To(ConsistOf(traceparents), "traceparents that plugins got")
	})
})
