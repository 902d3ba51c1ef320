// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// ledger records operations from all goroutines of a run.
type ledger struct {
	mu                 sync.Mutex
	started, cancelled []string
}

// action starts an operation on every config map but c.
func (l *ledger) action(name string, cancelled error) cancellableAction {
	return cancellableAction{ledger: l, refuses: cancelled, outside: outside{name: name, execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		if item.Name == "c" {
			return itemaction.Result{}, nil
		}
		id := name + "-" + item.Name
		return itemaction.Result{Operation: &itemaction.Operation{
			ID: id, PostItems: []itemaction.RelatedItem{ref("configmaps", "shop", "c")}, PollInterval: time.Second,
		}}, nil
	}}}
}

// cancellableAction is an action that can cancel the operations that it starts, unless it refuses.
type cancellableAction struct {
	outside
	ledger  *ledger
	refuses error
}

// CancelOperation implements itemaction.OperationStarter.
func (s cancellableAction) CancelOperation(ctx context.Context, _ itemaction.BackupItem, id string) error {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.ledger.cancelled = append(s.ledger.cancelled, id)
	return errors.Join(ctx.Err(), s.refuses)
}

// record is an OnOperationStarted.
func (l *ledger) record(_ context.Context, op itemaction.Operation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = append(l.started, op.ID)
	return nil
}

func (l *ledger) want(t *testing.T, started, cancelled []string) {
	t.Helper()
	slices.Sort(l.started)
	slices.Sort(l.cancelled)
	if diff := cmp.Diff([][]string{started, cancelled}, [][]string{l.started, l.cancelled}); diff != "" {
		t.Errorf("operations started and canceled (-want +got):\n%s", diff)
	}
}

// wholeShop selects the objects of the namespace shop.
func wholeShop() []string {
	return []string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c", "namespaces /shop"}
}

func TestRecordOrCancelOperation(t *testing.T) {
	l := &ledger{}
	one, two := l.action("one", nil), l.action("two", nil)
	req := shop(one, outside{name: "check", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if item.Name == "a" && !slices.Contains(l.started, "one-a") {
			t.Error("the operation is not recorded when the next action is called")
		}
		return itemaction.Result{}, nil
	}}, two)
	req.OnOperationStarted = func(ctx context.Context, op itemaction.Operation) error {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > operationCallbackTimeout {
			t.Error("it may be recorded forever")
		}
		return l.record(ctx, op)
	}
	result, got := backedUp(t, testCluster(), req, Options{})
	if diff := cmp.Diff(wholeShop(), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	l.want(t, []string{"one-a", "one-b", "two-a", "two-b"}, nil)
	var want []itemaction.Operation
	for _, of := range [][2]string{{"a", "one"}, {"a", "two"}, {"b", "one"}, {"b", "two"}} {
		want = append(want, itemaction.Operation{
			Action: "example.io/" + of[1], Kind: "AsyncBackupItemAction", Plugin: "demo",
			Resource:  schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			Namespace: "shop", Name: of[0], ID: of[1] + "-" + of[0],
			PostItems: []itemaction.RelatedItem{ref("configmaps", "shop", "c")}, PollInterval: time.Second,
		})
	}
	if diff := cmp.Diff(want, result.Operations); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	if result.Results.WarningCount+result.Results.ErrorCount > 0 {
		t.Errorf("results %+v", result.Results)
	}
}

// An operation that cannot be recorded would continue untracked.
func TestRecordOrCancelOperation_NotRecorded(t *testing.T) {
	for name, tc := range map[string]struct {
		started func(l *ledger) func(context.Context, itemaction.Operation) error
		cancel  error
		none    bool // the action has no Cancel
		want    string
	}{
		"the API server is away": {
			started: func(*ledger) func(context.Context, itemaction.Operation) error {
				return func(context.Context, itemaction.Operation) error { return errors.New("no connection") }
			},
			want: `the operation "x-a" was started and could not be recorded: no connection; it was canceled`,
		},
		"operations are not supported": {
			want: `the operation "x-a" was started and could not be recorded: this run does not wait for operations; it was canceled`,
		},
		"it cannot be canceled": {
			cancel: errors.New(`plugin "demo": busy`),
			want: `the operation "x-a" was started and could not be recorded: this run does not wait for operations; ` +
				`and it could not be canceled and may still be running: plugin "demo": busy`,
		},
		"there is no way to cancel it": {
			none: true,
			want: `the operation "x-a" was started and could not be recorded: this run does not wait for operations; ` +
				`and it could not be canceled and may still be running: the action has no way to cancel it`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{}
			action := l.action("x", tc.cancel)
			execute := action.execute
			action.execute = func(ctx context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
				result, err := execute(ctx, item)
				if item.Name == "b" {
					return itemaction.Result{}, nil
				}
				return result, err
			}
			req := shop(action)
			if tc.none {
				req = shop(action.outside)
			}
			if tc.started != nil {
				req.OnOperationStarted = tc.started(l)
			}
			result, got := backedUp(t, testCluster(), req, Options{})
			if diff := cmp.Diff(wholeShop(), slices.Sorted(slices.Values(got))); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			want := []string{`configmaps "shop/a": item action example.io/x: ` + tc.want}
			if diff := cmp.Diff(want, result.Results.Errors.OfNamespace("shop")); diff != "" || result.Results.ErrorCount != 1 {
				t.Errorf("%d errors (-want +got):\n%s", result.Results.ErrorCount, diff)
			}
			if len(result.Operations) > 0 {
				t.Errorf("operations %v", result.Operations)
			}
			if !tc.none {
				l.want(t, nil, []string{"x-a"})
			}
		})
	}
}

// An action may be called at the moment when the run ends.
func TestRecordOrCancelOperation_CanceledRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := &ledger{}
	action := l.action("x", nil)
	execute := action.execute
	action.execute = func(ctx context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		cancel()
		<-ctx.Done()
		return execute(context.WithoutCancel(ctx), item)
	}
	req := shop(action)
	req.OnOperationStarted = func(ctx context.Context, op itemaction.Operation) error {
		return errors.Join(ctx.Err(), l.record(ctx, op))
	}
	result, err := New(testCluster().cluster(t), Options{}).WriteArchive(ctx, req, io.Discard)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if len(l.started) == 0 || len(l.cancelled) > 0 || len(result.Operations) != len(l.started) {
		t.Errorf("started %v, canceled %v, told %v; want all of them recorded", l.started, l.cancelled, result.Operations)
	}
}

// A later failure does not remove the operation: it was started.
func TestRecordOrCancelOperation_SkippedObject(t *testing.T) {
	l := &ledger{}
	left := l.action("x", nil)
	execute := left.execute
	left.execute = func(ctx context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		result, err := execute(ctx, item)
		result.Skip = "it is elsewhere"
		return result, err
	}
	req := shop(left)
	req.OnOperationStarted = l.record
	result, got := backedUp(t, testCluster(), req, Options{})
	if diff := cmp.Diff([]string{"namespaces /shop"}, got); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	l.want(t, []string{"x-a", "x-b"}, nil)
	if len(result.Operations) != 2 {
		t.Errorf("operations %v", result.Operations)
	}
}

// TestRecordClaim_Operation: there is no warning about uncaptured data, unless the
// operation is not recorded.
func TestRecordClaim_Operation(t *testing.T) {
	l := &ledger{}
	copies := l.action("copy", nil)
	copies.resource = "persistentvolumeclaims"
	req := ArchiveRequest{
		Selection: selection.Spec{IncludedNamespaces: []string{"shop"}, IncludedNamespaceScopedResources: []string{"persistentvolumeclaims"}},
		Actions:   []itemaction.BackupAction{copies}, OnOperationStarted: l.record,
	}
	result, _ := backedUp(t, testCluster(), req, Options{})
	l.want(t, []string{"copy-data"}, nil)
	if (result.Volumes != VolumeCounts{Claims: 1}) || result.Results.WarningCount > 0 {
		t.Errorf("volumes %+v, results %+v", result.Volumes, result.Results)
	}
	req.OnOperationStarted = func(context.Context, itemaction.Operation) error { return errors.New("the API server is away") }
	result, _ = backedUp(t, testCluster(), req, Options{})
	if (result.Volumes != VolumeCounts{Claims: 1, Skipped: 1}) || result.Results.WarningCount != 1 || result.Results.ErrorCount != 1 {
		t.Errorf("without a record: volumes %+v, results %+v", result.Volumes, result.Results)
	}
}

// TestRecordMissingClaim: a claim that is not archived because an action failed counts as a claim
// whose data is not captured, and only its own error is reported.
func TestRecordMissingClaim(t *testing.T) {
	for name, execute := range map[string]func(context.Context, itemaction.BackupItem) (itemaction.Result, error){
		"error": func(context.Context, itemaction.BackupItem) (itemaction.Result, error) {
			return itemaction.Result{}, errors.New("the plugin ended during the call")
		},
		"panic": func(context.Context, itemaction.BackupItem) (itemaction.Result, error) { panic("broken action") },
	} {
		t.Run(name, func(t *testing.T) {
			result, archived := backedUp(t, testCluster(), ArchiveRequest{
				Selection: selection.Spec{IncludedNamespaces: []string{"shop"}, IncludedNamespaceScopedResources: []string{"persistentvolumeclaims"}},
				Actions:   []itemaction.BackupAction{outside{name: "copy", resource: "persistentvolumeclaims", execute: execute}},
			}, Options{})
			if (result.Volumes != VolumeCounts{Claims: 1}) || result.Results.WarningCount > 0 || result.Results.ErrorCount != 1 || slices.Contains(archived, "persistentvolumeclaims shop/data") {
				t.Errorf("volumes %+v, results %+v, archived %q", result.Volumes, result.Results, archived)
			}
		})
	}
}

// TestRecordOrCancelOperation_NoActionSlot has one slot for calls of actions, and operations that are recorded
// only when both are being recorded.
func TestRecordOrCancelOperation_NoActionSlot(t *testing.T) {
	l := &ledger{}
	both := make(chan struct{})
	var recording atomic.Int32
	req := shop(l.action("one", nil))
	req.OnOperationStarted = func(ctx context.Context, op itemaction.Operation) error {
		if recording.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
			return l.record(ctx, op)
		case <-time.After(10 * time.Second):
			return errors.New("the other operation is not started")
		}
	}
	backedUp(t, testCluster(), req, Options{ActionWorkers: 1})
	l.want(t, []string{"one-a", "one-b"}, nil)
}
