// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore"
)

// book records operations, and cancels them.
type book struct {
	mu                  sync.Mutex
	recorded, cancelled []string
	// full, if set, is the error of recording, and refuses that of canceling.
	full, refuses error
}

// start returns an operation.
func (b *book) start(id string) *itemaction.Operation {
	return &itemaction.Operation{ID: id, PollInterval: time.Second}
}

// starter is an action that can cancel the operations that it starts.
type starter struct {
	*plugged
	book *book
}

// CancelOperation implements itemaction.OperationStarter.
func (s *starter) CancelOperation(ctx context.Context, _ *itemaction.RestoreItem, id string) error {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	s.book.cancelled = append(s.book.cancelled, id)
	return errors.Join(s.book.refuses, ctx.Err())
}

// started is an OnOperationStarted.
func (b *book) started(ctx context.Context, op itemaction.Operation) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := errors.Join(b.full, ctx.Err()); err != nil {
		return err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("it could take forever")
	}
	b.recorded = append(b.recorded, op.ID)
	return nil
}

// since returns, sorted, what was recorded and canceled since its last call.
func (b *book) since() (recorded, cancelled []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	recorded, cancelled = slices.Sorted(slices.Values(b.recorded)), slices.Sorted(slices.Values(b.cancelled))
	b.recorded, b.cancelled = nil, nil
	return recorded, cancelled
}

func (b *book) want(t *testing.T, recorded, cancelled []string) {
	t.Helper()
	gotRecorded, gotCancelled := b.since()
	if diff := cmp.Diff(recorded, gotRecorded); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(cancelled, gotCancelled); diff != "" {
		t.Errorf("canceled (-want +got):\n%s", diff)
	}
}

// starts returns an action that starts an operation for each ConfigMap: "copy of a".
func (b *book) starts(name string) *starter {
	return &starter{book: b, plugged: &plugged{name: name, of: []string{"configmaps"}, execute: func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		return itemaction.Result{Operation: b.start(name + " of " + item.Archived.GetName())}, nil
	}}}
}

// TestRestoreObjects_Operations, also several for one object, regardless of the later outcome
// of the object.
func TestRestoreObjects_Operations(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, mapped = "plug-operations", "plug-operations-mapped"
	b := &book{}
	first, second := b.starts("first"), b.starts("second")
	starts := second.execute
	second.execute = func(ctx context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		result, err := starts(ctx, item)
		switch item.Archived.GetName() {
		case "skipped":
			result.Skip = "second skips it"
		case "failed":
			return itemaction.Result{}, errors.New("second fails")
		case "refused":
			return result, unstructured.SetNestedField(item.Object.Object, int64(7), "data", "key")
		}
		return result, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range []string{"good", "skipped", "failed", "refused"} {
		objects = append(objects, configMap(t, ns, name, "x"))
	}
	result := c.run(restore.Request{
		Archive: spool(t, objects), NamespaceMapping: map[string]string{ns: mapped},
		Actions: []itemaction.RestorePluginAction{first, second}, OnOperationStarted: b.started,
	})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2, restore.Skipped: 1, restore.Failed: 2})
	wantMessages(t, result,
		"error "+mapped+`: configmaps "`+mapped+`/failed": restore action second: second fails`,
		"error "+mapped+`: |configmaps "`+mapped+`/refused"|data`)
	var want []itemaction.Operation
	for _, name := range []string{"first failed", "first good", "first refused", "first skipped", "second good", "second refused", "second skipped"} {
		action, object, _ := strings.Cut(name, " ")
		want = append(want, itemaction.Operation{
			Action: action, ID: action + " of " + object, Kind: "AsyncRestoreItemAction", Plugin: "plugged", PollInterval: time.Second,
			Resource: schema.GroupVersionResource{Resource: "configmaps"}, Namespace: mapped, Name: object,
		})
	}
	if diff := cmp.Diff(want, result.Operations); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	b.want(t, []string{
		"first of failed", "first of good", "first of refused", "first of skipped", "second of good", "second of refused", "second of skipped",
	}, nil)
}

// TestRestoreObjects_OperationNotRecorded starts operations that cannot be recorded. They are canceled, and their objects are still restored.
func TestRestoreObjects_OperationNotRecorded(t *testing.T) {
	const said = `restore action copy: the operation "copy of c" was started and could not be recorded: `
	for name, tc := range map[string]struct {
		book    *book
		nobody  bool
		forGood bool
		want    string
	}{
		"it is refused":                {book: &book{full: errors.New("no space")}, want: said + "no space; it was canceled"},
		"operations are not supported": {book: &book{}, nobody: true, want: said + "this run does not wait for operations; it was canceled"},
		"nor is the cancellation":      {book: &book{full: errors.New("no space"), refuses: errors.New("not now")}, want: said + "no space; it could not be canceled and may still be running: not now"},
		"it has no end":                {book: &book{full: errors.New("no space")}, forGood: true, want: said + "no space; it could not be canceled and may still be running: the action has no way to do that"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			ns := "plug-unrecorded-" + strings.ReplaceAll(name, " ", "-")
			b, cancelled := tc.book, []string{"copy of c"}
			acts := itemaction.RestorePluginAction(b.starts("copy"))
			if tc.forGood {
				acts, cancelled = b.starts("copy").plugged, nil
			}
			request := restore.Request{
				Archive: spool(t, []*unstructured.Unstructured{configMap(t, ns, "c", "x")}), Actions: []itemaction.RestorePluginAction{acts}, OnOperationStarted: b.started,
			}
			if tc.nobody {
				request.OnOperationStarted = nil
			}
			result := c.run(request)
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2})
			wantMessages(t, result, "error "+ns+`: configmaps "`+ns+`/c": `+tc.want)
			if len(result.Operations) > 0 {
				t.Errorf("operations %+v", result.Operations)
			}
			b.want(t, nil, cancelled)
			c.get(configMap(t, ns, "c", ""))
		})
	}
}

// TestRestoreObjects_OperationOfRejectedObject is canceled and not recorded: the rejected answer
// does not count.
func TestRestoreObjects_OperationOfRejectedObject(t *testing.T) {
	for name, refuses := range map[string]error{"acknowledged": nil, "not acknowledged": errors.New("not now")} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			ns := "plug-refused-" + strings.ReplaceAll(name, " ", "-")
			b := &book{refuses: refuses}
			acts := b.starts("copy")
			starts := acts.execute
			acts.execute = func(ctx context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
				item.Object.SetKind("Gadget")
				return starts(ctx, item)
			}
			result := c.run(restore.Request{
				Archive: spool(t, []*unstructured.Unstructured{configMap(t, ns, "c", "x")}), Actions: []itemaction.RestorePluginAction{acts}, OnOperationStarted: b.started,
			})
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: 1, restore.Failed: 1})
			end := "it was canceled"
			if refuses != nil {
				end = "it could not be canceled and may still be running: not now"
			}
			wantMessages(t, result, "error "+ns+`: configmaps "`+ns+`/c": restore action copy: made |it started the operation "copy of c"; `+end)
			b.want(t, nil, []string{"copy of c"})
		})
	}
}

// TestRestoreObjects_InterruptedOperations interrupts a run. Its operations are recorded although the run has ended, and objects
// that it wrote keep their operations: the next attempt starts operations only for the
// other objects, one for each.
func TestRestoreObjects_InterruptedOperations(t *testing.T) {
	const size = 6
	for n := range int64(size) {
		t.Run(fmt.Sprintf("after %d writes", n+1), func(t *testing.T) {
			c := newTarget(t, restore.Options{Workers: 1})
			ns := fmt.Sprintf("plug-interrupted-%d", n)
			c.namespace(ns)
			var objects []*unstructured.Unstructured
			for i := range size {
				objects = append(objects, configMap(t, ns, fmt.Sprintf("c-%d", i), "x"))
			}
			b := &book{}
			request := restore.Request{
				Archive: spool(t, objects), Actions: []itemaction.RestorePluginAction{b.starts("copy")}, OnOperationStarted: b.started, RestoreUID: "u",
			}
			result := c.interrupted(request, n+1, func(r *http.Request) bool { return r.Method == http.MethodPost })
			recorded, cancelled := b.since()
			if len(recorded) != len(result.Operations) || len(recorded) < int(n+1) || len(cancelled) > 0 {
				t.Errorf("recorded %v and canceled %v; the result has %v", recorded, cancelled, result.Operations)
			}
			var missing []string
			for _, o := range objects {
				if !c.has(o) {
					missing = append(missing, "copy of "+o.GetName())
				}
			}
			wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Created: size})
			b.want(t, missing, nil)
			wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Created: size})
			b.want(t, nil, nil)
		})
	}
}

// TestRestoreObjects_InterruptedBeforeRecording: the operation continues, so it must be
// recorded or reported.
func TestRestoreObjects_InterruptedBeforeRecording(t *testing.T) {
	for name, b := range map[string]*book{
		"recorded": {}, "cancelled": {full: errors.New("no space")}, "lost": {full: errors.New("no space"), refuses: errors.New("not now")},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			acts := b.starts("copy")
			starts := acts.execute
			acts.execute = func(ctx context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
				cancel(errLeader)
				return starts(ctx, item)
			}
			result, err := c.engine.RestoreObjects(ctx, restore.Request{
				Archive: spool(t, []*unstructured.Unstructured{configMap(t, "plug-between-"+name, "c", "x")}),
				Actions: []itemaction.RestorePluginAction{acts}, OnOperationStarted: b.started, BackupName: "b", RestoreName: "r",
			})
			if !errors.Is(err, errLeader) {
				t.Errorf("error %v", err)
			}
			if name == "recorded" {
				b.want(t, []string{"copy of c"}, nil)
				wantMessages(t, result)
				return
			}
			b.want(t, nil, []string{"copy of c"})
			wantMessages(t, result, `error |the operation "copy of c" was started and could not be recorded: no space; it `)
		})
	}
}

// TestRestoreObjects_DryRunOperations: an action that is not called cannot start any.
func TestRestoreObjects_DryRunOperations(t *testing.T) {
	c := newTarget(t, restore.Options{})
	b := &book{}
	acts := b.starts("copy")
	result := c.run(restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{configMap(t, "plug-dry-operation", "c", "x")}),
		Actions: []itemaction.RestorePluginAction{acts}, OnOperationStarted: b.started, DryRun: true,
	})
	wantSeen(t, acts.plugged)
	b.want(t, nil, nil)
	if len(result.Operations) > 0 {
		t.Errorf("operations %+v", result.Operations)
	}
}

// TestRestoreObjects_OperationAndReadiness: the operation is recorded before anything else happens, and the
// object waits for its related items for no longer than the timeout.
func TestRestoreObjects_OperationAndReadiness(t *testing.T) {
	for name, tc := range map[string]struct {
		ready bool
		want  []string
	}{
		"ready": {ready: true},
		"never ready": {want: []string{
			`error plug-op-never-ready: configmaps "plug-op-never-ready/c": restore action copy: its related items were not ready after 20ms`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			ns := "plug-op-" + strings.ReplaceAll(name, " ", "-")
			b := &book{}
			acts := b.starts("copy")
			starts := acts.execute
			recorded := false
			acts.execute = func(ctx context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
				result, err := starts(ctx, item)
				result.RelatedItems, result.ReadyTimeout = []itemaction.RelatedItem{ref("limitranges", ns, "later")}, 20*time.Millisecond
				result.WaitForRelatedItems = true
				return result, err
			}
			acts.ready = func(*itemaction.RestoreItem, []itemaction.RelatedItem) (bool, error) {
				if !recorded || c.has(configMap(t, ns, "c", "")) {
					t.Error("it is called before the operation was recorded, or too late")
				}
				return tc.ready, nil
			}
			result := c.run(restore.Request{
				Archive: spool(t, []*unstructured.Unstructured{configMap(t, ns, "c", "x"), obj(t, "v1", "LimitRange", ns, "later", "")}),
				Actions: []itemaction.RestorePluginAction{acts},
				OnOperationStarted: func(ctx context.Context, op itemaction.Operation) error {
					if recorded = true; c.has(obj(t, "v1", "LimitRange", ns, "later", "")) {
						t.Error("it is recorded after the object that it needs was restored")
					}
					return b.started(ctx, op)
				},
			})
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3})
			wantMessages(t, result, tc.want...)
			b.want(t, []string{"copy of c"}, nil)
		})
	}
}
