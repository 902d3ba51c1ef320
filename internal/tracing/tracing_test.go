// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	tracingv1 "k8s.io/component-base/tracing/api/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const backupUID = types.UID("0b6e2f0c-7f1d-4d3b-9a58-1f0d5d4c8e11")

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func after(seconds int) v1alpha1.MicroTime {
	return v1alpha1.NewMicroTime(noon.Add(time.Duration(seconds) * time.Second))
}

// newBackup returns a finalized Backup that failed in its second stage, and whose Post actions failed.
func newBackup() *v1alpha1.Backup {
	pre, archived, post, end := after(2), after(5), after(6), metav1.NewTime(noon.Add(5*time.Second))
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "grapnel-system", Name: "backup-1", UID: backupUID}}
	b.Status.Phase, b.Status.CompletionTimestamp, b.Status.Message = v1alpha1.RunPhaseFailed, &end, "secret"
	b.Status.Timeline = []v1alpha1.RunStage{
		{Name: "RunningPreBackupActions", StartTimestamp: after(0), CompletionTimestamp: &pre},
		{Name: "Archiving", StartTimestamp: pre, CompletionTimestamp: &archived},
		{Name: "RunningPostBackupActions", StartTimestamp: archived, CompletionTimestamp: &post},
	}
	const shortly = 400 * time.Nanosecond // an operator reads the clock for conditions before it does for stages
	b.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: "StoreStalled", Message: "secret", LastTransitionTime: metav1.NewTime(archived.Add(shortly))},
		{Type: v1alpha1.ConditionPostActionsSucceeded, Status: metav1.ConditionFalse, Reason: "PostBackupActionFailed", LastTransitionTime: metav1.NewTime(post.Add(-shortly))},
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NotReady", LastTransitionTime: metav1.NewTime(pre.Time)},
	}
	return b
}

// newHookRun returns a HookRun with a failed attempt and an open one.
func newHookRun() *v1alpha1.HookRun {
	end := after(1)
	run := &v1alpha1.HookRun{ObjectMeta: metav1.ObjectMeta{Namespace: "grapnel-system", Name: "hook-1", UID: "hook-uid"}}
	run.Spec.Hook, run.Spec.ActionName, run.Spec.ParentRef.UID = v1alpha1.HookPreBackup, "example.io/freeze", string(backupUID)
	run.Spec.Parameters = v1alpha1.ParameterSet{"password": "secret"}
	run.Status.Attempt = 2
	run.Status.Attempts = []v1alpha1.HookAttempt{
		{Number: 1, StartTimestamp: after(0), CompletionTimestamp: &end, Reason: "TimedOut", Message: "secret"},
		{Number: 2, StartTimestamp: after(1)},
	}
	return run
}

func newOperation() *v1alpha1.AsyncOperation {
	start, end := after(3), after(4)
	o := &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{Namespace: "grapnel-system", Name: "operation-1", UID: "operation-uid"}}
	o.Spec.Kind, o.Spec.ActionName, o.Spec.ParentRef.UID = v1alpha1.ActionKindBackupItem, "example.io/snapshot", string(backupUID)
	o.Spec.OperationID, o.Spec.Item.Name = "secret", "secret"
	o.Status.Phase, o.Status.StartTimestamp, o.Status.CompletionTimestamp = v1alpha1.AsyncOperationPhaseCompleted, &start, &end
	return o
}

// exportAll exports what the controllers do, as often as an operator that is restarted.
func exportAll(ctx context.Context, t *Tracer) {
	for range 2 {
		b := newBackup()
		t.ExportStages(ctx, "Backup", b)
		t.ExportAttempts(ctx, newHookRun(), func() []v1alpha1.RunStage { return b.Status.Timeline })
		t.ExportOperation(ctx, newOperation(), "Completed")
		t.ExportRun(ctx, "Backup", b)
	}
}

func TestTracer_Export(t *testing.T) {
	t.Parallel()
	var exports [2][]string
	for i := range exports { // two operators
		exporter := tracetest.NewInMemoryExporter()
		tracer := newTracer(DefaultSamplingRate, sdktrace.WithSyncer(exporter))
		exportAll(t.Context(), tracer)
		for _, s := range exporter.GetSpans() {
			attributes := []string{}
			for _, a := range s.Attributes {
				attributes = append(attributes, string(a.Key)+"="+a.Value.String())
			}
			exports[i] = append(exports[i], fmt.Sprintf("%s %s<%s %s %d-%d %s %s %s", s.SpanContext.TraceID(), s.SpanContext.SpanID(), s.Parent.SpanID(),
				s.Name, s.StartTime.Sub(noon)/time.Second, s.EndTime.Sub(noon)/time.Second, s.Status.Code, s.Status.Description, strings.Join(attributes, " ")))
		}
	}
	ids := strings.NewReplacer(
		"0b6e2f0c7f1d4d3b9a581f0d5d4c8e11", "trace", "0000000000000000", "", runSpanID(backupUID).String(), "run",
		stageSpanID(backupUID, &newBackup().Status.Timeline[0]).String(), "pre", stageSpanID(backupUID, &newBackup().Status.Timeline[1]).String(), "archiving",
		stageSpanID(backupUID, &newBackup().Status.Timeline[2]).String(), "post",
		attemptSpanID("hook-uid", 1).String(), "attempt", operationSpanID("operation-uid").String(), "operation")
	const object = "grapnel.kind=Backup grapnel.namespace=grapnel-system grapnel.name=backup-1"
	want := []string{
		"trace pre<run RunningPreBackupActions 0-2 Unset  " + object,
		"trace archiving<run Archiving 2-5 Error StoreStalled " + object,
		"trace post<run RunningPostBackupActions 5-6 Error PostBackupActionFailed " + object,
		"trace attempt<pre PreBackup example.io/freeze 0-1 Error TimedOut grapnel.kind=HookRun grapnel.namespace=grapnel-system " +
			"grapnel.name=hook-1 grapnel.action=example.io/freeze grapnel.attempt=1 grapnel.reason=TimedOut",
		"trace operation<run BackupItemAction example.io/snapshot 3-4 Unset  grapnel.kind=AsyncOperation grapnel.namespace=grapnel-system " +
			"grapnel.name=operation-1 grapnel.action=example.io/snapshot grapnel.phase=Completed grapnel.reason=Completed",
		"trace run< Backup 0-6 Error StoreStalled " + object + " grapnel.phase=Failed grapnel.reason=StoreStalled",
	}
	if diff := cmp.Diff(want, strings.Split(ids.Replace(strings.Join(exports[0], "\n")), "\n")); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(exports[0], exports[1]); diff != "" {
		t.Errorf("another operator exports other spans (-first +second):\n%s", diff)
	}
}

// TestTracer_Sampling checks that the rate applies to UUIDs, of which some bits are constant, and that others are told.
func TestTracer_Sampling(t *testing.T) {
	t.Parallel()
	const runs = 2000
	for rate, want := range map[int32]struct{ min, max int }{
		0: {0, 0}, 100_000: {runs / 20, runs / 5}, 500_000: {runs * 2 / 5, runs * 3 / 5}, DefaultSamplingRate: {runs, runs},
	} {
		exporter := tracetest.NewInMemoryExporter()
		tracer, sampled := newTracer(rate, sdktrace.WithSyncer(exporter)), 0
		for range runs {
			b := newBackup()
			b.UID = uuid.NewUUID()
			tracer.ExportRun(t.Context(), "Backup", b)
			if strings.HasSuffix(Traceparent(tracer.WithStage(t.Context(), b.UID, b.Status.Timeline)), "-01") {
				sampled++
			}
		}
		if got := len(exporter.GetSpans()); got < want.min || got > want.max || got != sampled {
			t.Errorf("at %d per million, %d of %d runs are exported, and %d traceparents say so; want %d to %d",
				rate, got, runs, sampled, want.min, want.max)
		}
	}
}

func TestTracer_Traceparent(t *testing.T) {
	t.Parallel()
	tracer, b := newTracer(DefaultSamplingRate), newBackup()
	for name, tc := range map[string]struct {
		ctx  context.Context //nolint:containedctx // It is the input.
		want string
	}{
		"no stage":  {ctx: tracer.WithStage(t.Context(), b.UID, nil), want: runSpanID(b.UID).String()},
		"stage":     {ctx: tracer.WithStage(t.Context(), b.UID, b.Status.Timeline), want: stageSpanID(b.UID, &b.Status.Timeline[2]).String()},
		"attempt":   {ctx: tracer.WithAttempt(t.Context(), newHookRun()), want: attemptSpanID("hook-uid", 2).String()},
		"operation": {ctx: tracer.WithOperation(t.Context(), b.UID, "operation-uid"), want: operationSpanID("operation-uid").String()},
	} {
		if got, want := Traceparent(tc.ctx), "00-0b6e2f0c7f1d4d3b9a581f0d5d4c8e11-"+tc.want+"-01"; got != want {
			t.Errorf("%s: traceparent is %q, want %q", name, got, want)
		}
	}
}

// TestNew_CollectorFails exports more spans than fit into the queue to collectors that do not take them.
func TestNew_CollectorFails(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() }) // nothing accepts its connections
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := down.Close(); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{"does not respond": silent.Addr().String(), "is down": down.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, err := New(t.Context(), tracingv1.TracingConfiguration{Endpoint: &address}, "v1")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for i := range 5000 {
				o := newOperation()
				o.UID = types.UID(fmt.Sprint(i))
				tracer.ExportOperation(t.Context(), o, "Completed")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := tracer.Shutdown(ctx); err == nil {
				t.Error("Shutdown reports no error, although no span was sent")
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("exporting took %s", took)
			}
		})
	}
}

func TestNew_Options(t *testing.T) {
	t.Parallel()
	rate := func(r int32) *int32 { return &r }
	for name, tc := range map[string]struct {
		endpoint string
		rate     *int32
		wantErr  string
	}{
		"off":             {},
		"a URL":           {endpoint: "http://collector:4318", wantErr: "unsupported scheme: http"},
		"a negative rate": {endpoint: "collector:4317", rate: rate(-1), wantErr: "samplingRatePerMillion"},
		"too high a rate": {endpoint: "collector:4317", rate: rate(1000001), wantErr: "samplingRatePerMillion"},
	} {
		tracer, err := New(t.Context(), tracingv1.TracingConfiguration{Endpoint: &tc.endpoint, SamplingRatePerMillion: tc.rate}, "v1")
		if tracer != nil || (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
			t.Errorf("%s: New returns %v, %v; want an error with %q", name, tracer, err, tc.wantErr)
		}
	}
}

// TestTracer_Off checks that a run without traces costs nothing: calls of plugins are made for each object.
func TestTracer_Off(t *testing.T) {
	var off *Tracer
	b, run, o, ctx := newBackup(), newHookRun(), newOperation(), t.Context()
	allocations := testing.AllocsPerRun(100, func() {
		for _, ctx := range []context.Context{
			off.WithStage(ctx, b.UID, b.Status.Timeline), off.WithAttempt(ctx, run), off.WithOperation(ctx, b.UID, o.UID),
		} {
			if Traceparent(ctx) != "" {
				t.Error("there is a traceparent")
			}
		}
		off.ExportStages(ctx, "Backup", b)
		off.ExportRun(ctx, "Backup", b)
		off.ExportAttempts(ctx, run, nil)
		off.ExportOperation(ctx, o, "Completed")
	})
	if err := off.Shutdown(ctx); err != nil || allocations > 0 {
		t.Errorf("there are %v allocations, and Shutdown returns %v; want none", allocations, err)
	}
}
