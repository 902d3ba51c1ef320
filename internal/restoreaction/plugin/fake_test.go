// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// secret is registered with the redactor of the tests.
const secret = "hunter2-secret"

// fake is a plugin with the answers of a test.
type fake struct {
	selector item.Selector
	// applies, execute, ready and cancel answer the calls.
	applies func() error
	execute func(ctx context.Context, object adapter.RestoreItem) (adapter.RestoreItemAnswer, error)
	ready   func(refs []item.Ref) (bool, error)
	cancel  func(ctx context.Context) error

	mu    sync.Mutex
	calls []adapter.ItemCall
	// cancelled are the IDs of the operations for which Cancel was called.
	cancelled []string
}

// Do implements caller.Connection.
func (f *fake) Do(ctx context.Context, _ process.Call, fn func(context.Context, grpc.ClientConnInterface, string) error) error {
	err := fn(ctx, nil, "call-1")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (f *fake) note(call adapter.ItemCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

// AppliesTo implements adapter.RestoreItemAction.
func (f *fake) AppliesTo(_ context.Context, _ grpc.ClientConnInterface, call adapter.ItemCall) (item.Selector, error) {
	f.note(call)
	if f.applies != nil {
		return item.Selector{}, f.applies()
	}
	return f.selector, nil
}

// Execute implements adapter.RestoreItemAction.
func (f *fake) Execute(ctx context.Context, _ grpc.ClientConnInterface, call adapter.ItemCall, object adapter.RestoreItem) (adapter.RestoreItemAnswer, error) {
	f.note(call)
	return f.execute(ctx, object)
}

// AreAdditionalItemsReady implements adapter.RestoreItemAction.
func (f *fake) AreAdditionalItemsReady(_ context.Context, _ grpc.ClientConnInterface, call adapter.ItemCall, refs []item.Ref, _ []byte) (bool, error) {
	f.note(call)
	return f.ready(refs)
}

// Progress implements adapter.Operations.
func (f *fake) Progress(context.Context, grpc.ClientConnInterface, adapter.ItemCall, adapter.OperationRef) (item.Progress, error) {
	return item.Progress{}, adapter.ErrOperationsUnsupported
}

// Cancel implements adapter.Operations.
func (f *fake) Cancel(ctx context.Context, _ grpc.ClientConnInterface, call adapter.ItemCall, op adapter.OperationRef) error {
	f.note(call)
	f.mu.Lock()
	f.cancelled = append(f.cancelled, op.OperationID+" of "+string(op.Parent))
	f.mu.Unlock()
	if f.cancel != nil {
		return f.cancel(ctx)
	}
	return ctx.Err()
}

// chosen returns an action of the fake after ResolveSelector.
func (f *fake) chosen(t *testing.T, edit func(*Spec)) restoreaction.PluginAction {
	t.Helper()
	spec := Spec{
		Name: "example.io/act", Plugin: "acts", Parameters: map[string]string{"mode": "fast"},
		Resolve: func() (caller.Connection, adapter.RestoreItemAction, error) { return f, f, nil },
	}
	if edit != nil {
		edit(&spec)
	}
	a := New(spec, RestoreRun{Key: "uid-1", Restore: []byte(`{"kind":"Restore"}`)}, redact.New(secret))
	if err := a.ResolveSelector(t.Context(), names{}); err != nil {
		t.Fatal(err)
	}
	return a
}

// returns answers with the sent object, changed by edit.
func returns(edit func(object map[string]any)) func(context.Context, adapter.RestoreItem) (adapter.RestoreItemAnswer, error) {
	return func(_ context.Context, sent adapter.RestoreItem) (adapter.RestoreItemAnswer, error) {
		object := map[string]any{}
		if err := json.Unmarshal(sent.Object, &object); err != nil {
			return adapter.RestoreItemAnswer{}, err
		}
		edit(object)
		data, err := json.Marshal(object)
		return adapter.RestoreItemAnswer{Item: data}, err
	}
}

// answers always returns the same answer.
func answers(answer adapter.RestoreItemAnswer, err error) func(context.Context, adapter.RestoreItem) (adapter.RestoreItemAnswer, error) {
	return func(context.Context, adapter.RestoreItem) (adapter.RestoreItemAnswer, error) { return answer, err }
}

// names resolves pods.
type names struct{}

func (names) Resolve(name string) (schema.GroupResource, bool) {
	gr := schema.GroupResource{Resource: "pods"}
	return gr, name == "pods" || name == "po"
}

// pod is restored from namespace shop to namespace office.
func pod(t *testing.T) *restoreaction.Item {
	t.Helper()
	archived := decode(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"u","labels":{"app":"web"},
		"ownerReferences":[{"kind":"ReplicaSet","uid":"o"}]},"spec":{"nodeName":"n","count":3},"status":{"phase":"Running"}}`)
	object, err := action.CopyForRestore(archived, action.RestoreNames{Backup: "b", Restore: "r"})
	if err != nil {
		t.Fatal(err)
	}
	object.SetNamespace("office")
	return &restoreaction.Item{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: object, Archived: archived,
		Restore: &restoreaction.RestoreContext{NamespaceMapping: map[string]string{"shop": "office"}},
	}
}

func decode(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one that says %q", err, want)
	case err != nil && strings.Contains(err.Error(), secret):
		t.Errorf("the error shows a secret: %v", err)
	}
}
