// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/operation"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func TestPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &callSlots{perPlugin: 1}
		leave, taken, err := p.acquireSlot(t.Context(), "a", nil)
		if !taken || err != nil {
			t.Fatal(taken, err)
		}
		if _, taken, err := p.acquireSlot(t.Context(), "b", nil); !taken || err != nil {
			t.Fatalf("slot of another plugin: %v, %v", taken, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, _, err := p.acquireSlot(ctx, "a", nil)
			failed <- err
		}()
		hurry, gaveUp := make(chan struct{}), make(chan bool, 1)
		go func() {
			_, taken, err := p.acquireSlot(t.Context(), "a", hurry)
			gaveUp <- !taken && err == nil
		}()
		synctest.Wait()
		close(hurry)
		if !<-gaveUp {
			t.Error("acquireSlot kept waiting after hurry was closed")
		}
		cancel(errUntracked)
		if err := <-failed; err != errUntracked { //nolint:errorlint // the cause itself
			t.Errorf("waiting ended with %v, want %v", err, errUntracked)
		}
		leave()
		if _, taken, _ := p.acquireSlot(t.Context(), "a", hurry); taken {
			t.Error("a slot was taken although hurry is closed")
		}
		if _, taken, err := p.acquireSlot(t.Context(), "a", nil); !taken || err != nil {
			t.Fatal(taken, err)
		}
	})
}

// TestParentToVeleroJSON compares the JSON of a Backup or Restore that plugins receive.
func TestParentToVeleroJSON(t *testing.T) {
	t.Parallel()
	op := &v1alpha1.AsyncOperation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "grapnel"},
		Spec:       v1alpha1.AsyncOperationSpec{ParentRef: v1alpha1.ParentReference{Kind: "Restore", Name: "back", UID: "u1"}},
	}
	start := metav1.NewTime(noon)
	restore := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "grapnel", Name: "back", UID: "u1", Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": "long", "a": "b",
		}},
		Spec: v1alpha1.RestoreSpec{
			ScheduleName: "nightly", NamespaceMapping: map[string]v1alpha1.NamespaceName{"a": "b"},
			Parameters: map[string]v1alpha1.ParameterSet{"x": {"token": "secret"}},
		},
	}
	restore.Status.BackupName, restore.Status.StartTimestamp = "nightly-1", &start
	for name, tc := range map[string]struct {
		object *v1alpha1.Restore
		want   string
	}{
		"does not exist": {want: `{"kind":"Restore","apiVersion":"velero.io/v1","metadata":{"name":"back","namespace":"grapnel","uid":"u1","creationTimestamp":null},"spec":{"itemOperationTimeout":"1h0m0s"},"status":{"phase":"InProgress"}}`},
		"exists": {object: restore, want: `{"kind":"Restore","apiVersion":"velero.io/v1",` +
			`"metadata":{"name":"back","namespace":"grapnel","uid":"u1","annotations":{"a":"b"},"creationTimestamp":"2026-03-04T12:00:00Z"},` +
			`"spec":{"backupName":"nightly-1","itemOperationTimeout":"1h0m0s","namespaceMapping":{"a":"b"},"scheduleName":"nightly"},` +
			`"status":{"phase":"InProgress","startTimestamp":"2026-03-04T12:00:00Z"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := parentToVeleroJSON(op, nil, time.Hour)
			if tc.object != nil {
				data, err = parentToVeleroJSON(op, tc.object, time.Hour)
			}
			var got, want any
			if err != nil || json.Unmarshal(data, &got) != nil || json.Unmarshal([]byte(tc.want), &want) != nil {
				t.Fatalf("%s, %v", data, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the plugin sees (-want +got):\n%s", diff)
			}
		})
	}
}

// TestParents_ReleaseParent: a parent is kept as long as it has operations.
func TestParents_ReleaseParent(t *testing.T) {
	t.Parallel()
	var p parents
	first, second := p.acquireParent("u"), p.acquireParent("u")
	if first != second {
		t.Fatal("the same parent has two entries")
	}
	p.releaseParent("u")
	if p.acquireParent("u") != first {
		t.Error("a parent that is still used was dropped")
	}
	p.releaseParent("u")
	p.releaseParent("u")
	if len(p.byUID) != 0 {
		t.Errorf("%d parents remain", len(p.byUID))
	}
}

// TestMetrics compares all metrics with the names that dashboards rely on.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Metrics: m}
	r.initializeState(func(types.NamespacedName) {})
	for i := range 3 {
		op := &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}}
		op.Spec.PluginRef.Name = "example"
		r.trackOperation(types.NamespacedName{Name: fmt.Sprint(i)}, op)
		r.trackOperation(types.NamespacedName{Name: fmt.Sprint(i)}, op)
	}
	r.untrackOperation(types.NamespacedName{Name: "0"})
	r.untrackOperation(types.NamespacedName{Name: "0"})
	at := v1alpha1.NewMicroTime(noon.Add(3 * time.Second))
	op := &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}}
	op.Spec.PluginRef.Name, op.Spec.Kind, op.Status.CompletionTimestamp = "example", v1alpha1.ActionKindAsyncBackupItem, &at
	m.recordFinished(op, v1alpha1.ReasonTimedOut)
	m.polls.WithLabelValues("example").Add(5)
	m.pollErrors.WithLabelValues("example").Inc()
	want := map[string]string{
		`grapnel_item_operations_total{kind="AsyncBackupItemAction",plugin="example",result="TimedOut"}`: "1",
		`grapnel_item_operation_duration_seconds_count{plugin="example"}`:                                "1",
		`grapnel_item_operation_duration_seconds_sum{plugin="example"}`:                                  "3",
		`grapnel_item_operations_open{plugin="example"}`:                                                 "2",
		`grapnel_item_operation_polls_total{plugin="example"}`:                                           "5",
		`grapnel_item_operation_poll_errors_total{plugin="example"}`:                                     "1",
	}
	if diff := cmp.Diff(want, scrape(registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// scrape returns the values of all metrics, by name with labels.
func scrape(registry *prometheus.Registry) map[string]string {
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	values := map[string]string{}
	for line := range strings.Lines(recorder.Body.String()) {
		name, value, _ := strings.Cut(line, "} ")
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
			values[name+"}"] = strings.TrimSpace(value)
		}
	}
	return values
}

// TestUntrackOperation_RunningCall ends calls after their operation was untracked.
func TestUntrackOperation_RunningCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := NewMetrics(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		r := &Reconciler{Metrics: m}
		r.initializeState(func(types.NamespacedName) {})
		go func() { _ = r.calls.Start(t.Context()) }()
		synctest.Wait()
		name := types.NamespacedName{Name: "copy"}
		old := &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{UID: "old"}}
		k := r.trackOperation(name, old)
		hangs := make(chan struct{})
		r.startCall(k, k.pollID, r.acquirePollSlot, func(context.Context, *trackedOperation) callResult {
			<-hangs
			return callResult{progress: item.Progress{}, failure: &operation.Failure{}}
		})
		synctest.Wait()
		r.trackOperation(name, &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{UID: "new"}})
		if _, is := r.calls.LookupOutcome(k.pollID); !is || len(r.tracked.endingCalls) != 1 {
			t.Fatalf("ending calls are %v", r.tracked.endingCalls)
		}
		close(hangs)
		synctest.Wait()
		if _, is := r.calls.LookupOutcome(k.pollID); is || len(r.tracked.endingCalls) != 0 {
			t.Errorf("remaining calls are %v", slices.Collect(maps.Keys(r.tracked.endingCalls)))
		}
	})
}

// TestAcquireWriteSlot_NoFreeSlot has the maximum number of writes in flight.
func TestAcquireWriteSlot_NoFreeSlot(t *testing.T) {
	t.Parallel()
	r := &Reconciler{optionalWrites: rate.NewLimiter(0, 0), requiredWrites: rate.NewLimiter(10, 1), writeSlots: make(chan struct{}, 1)}
	r.writeSlots <- struct{}{}
	progress, ends := &trackedOperation{}, &trackedOperation{}
	if begun, after := r.acquireWriteSlot(progress, operation.OptionalWrite, noon); begun || after != 0 {
		t.Errorf("write of progress: begun = %t, retry after %s", begun, after)
	}
	at := noon.Add(time.Second)
	if begun, after := r.acquireWriteSlot(ends, operation.RequiredWrite, at); begun || after != minWriteRequeue || !ends.writeTime.After(at) {
		t.Errorf("write of an outcome: begun = %t, retry after %s, at %s", begun, after, ends.writeTime)
	}
	<-r.writeSlots
	if begun, _ := r.acquireWriteSlot(ends, operation.RequiredWrite, at.Add(minWriteRequeue)); !begun || !ends.writeTime.IsZero() || len(r.writeSlots) != 1 {
		t.Error("the write of an outcome did not begin in its turn")
	}
}

// TestReconcile_Panic has a Client that panics. The controller's own logger discards everything
// during Reconcile.
func TestReconcile_Panic(t *testing.T) {
	t.Parallel()
	var said []string
	r := &Reconciler{Client: panicking{}, log: funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})}
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
		if len(said) != 1 || !strings.Contains(said[0], "nothing works") || !strings.Contains(said[0], `"name"="op-1"`) || !strings.Contains(said[0], "internal_test.go") {
			t.Errorf("the log is %q", said)
		}
	}()
	_, _ = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "grapnel", Name: "op-1"}})
}

type panicking struct{ client.Client }

func (panicking) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	panic("nothing works")
}
