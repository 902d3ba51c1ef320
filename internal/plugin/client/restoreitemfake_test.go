// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// secret is registered with the redactor of the tests.
const secret = "hunter2-secret"

// fakeRestoreAction is a plugin with the answers of a test.
type fakeRestoreAction struct {
	selector item.Selector
	// applies, execute, ready and cancel answer the calls.
	applies func() error
	execute func(ctx context.Context, object RestoreItem) (RestoreItemAnswer, error)
	ready   func(refs []item.Ref) (bool, error)
	cancel  func(ctx context.Context) error

	mu    sync.Mutex
	calls []ItemCall
	// cancelled are the IDs of the operations for which Cancel was called.
	cancelled []string
}

// Begin implements Connection.
func (f *fakeRestoreAction) Begin(context.Context, host.Call) (host.OpenCall, error) {
	return plugintesting.Call{CallID: "call-1", EndsWithContext: true}, nil
}

func (f *fakeRestoreAction) note(call ItemCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

// AppliesTo implements RestoreItemAction.
func (f *fakeRestoreAction) AppliesTo(_ context.Context, call ItemCall) (item.Selector, error) {
	f.note(call)
	if f.applies != nil {
		return item.Selector{}, f.applies()
	}
	return f.selector, nil
}

// Execute implements RestoreItemAction.
func (f *fakeRestoreAction) Execute(ctx context.Context, call ItemCall, object RestoreItem) (RestoreItemAnswer, error) {
	f.note(call)
	return f.execute(ctx, object)
}

// AreAdditionalItemsReady implements RestoreItemAction.
func (f *fakeRestoreAction) AreAdditionalItemsReady(_ context.Context, call ItemCall, refs []item.Ref, _ []byte) (bool, error) {
	f.note(call)
	return f.ready(refs)
}

// Progress implements Operations.
func (f *fakeRestoreAction) Progress(context.Context, ItemCall, OperationRef) (item.Progress, error) {
	return item.Progress{}, ErrOperationsUnsupported
}

// Cancel implements Operations.
func (f *fakeRestoreAction) Cancel(ctx context.Context, call ItemCall, op OperationRef) error {
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
func (f *fakeRestoreAction) chosen(t *testing.T, edit func(*RestoreItemActionSpec)) itemaction.RestorePluginAction {
	t.Helper()
	spec := RestoreItemActionSpec{
		Name: "example.io/act", Plugin: "acts", Parameters: map[string]string{"mode": "fast"},
		Resolve: func() (Connection, RestoreItemAction, error) { return f, f, nil },
	}
	if edit != nil {
		edit(&spec)
	}
	a := NewRestoreItemAction(spec, RestoreRun{Key: "uid-1", Restore: []byte(`{"kind":"Restore"}`)}, redact.New(secret))
	if err := a.ResolveSelector(t.Context(), restoreNames{}); err != nil {
		t.Fatal(err)
	}
	return a
}

// returns answers with the sent object, changed by edit.
func returns(edit func(object map[string]any)) func(context.Context, RestoreItem) (RestoreItemAnswer, error) {
	return func(_ context.Context, sent RestoreItem) (RestoreItemAnswer, error) {
		object := map[string]any{}
		if err := json.Unmarshal(sent.Object, &object); err != nil {
			return RestoreItemAnswer{}, err
		}
		edit(object)
		data, err := json.Marshal(object)
		return RestoreItemAnswer{Item: data}, err
	}
}

// answers always returns the same answer.
func answers(answer RestoreItemAnswer, err error) func(context.Context, RestoreItem) (RestoreItemAnswer, error) {
	return func(context.Context, RestoreItem) (RestoreItemAnswer, error) { return answer, err }
}

// restoreNames resolves pods.
type restoreNames struct{}

func (restoreNames) Resolve(name string) (schema.GroupResource, bool) {
	gr := schema.GroupResource{Resource: "pods"}
	return gr, name == "pods" || name == "po"
}

// newRestorePod returns a Pod that is restored from namespace shop to namespace office.
func newRestorePod(t *testing.T) *itemaction.RestoreItem {
	t.Helper()
	archived := decode(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"u","labels":{"app":"web"},
		"ownerReferences":[{"kind":"ReplicaSet","uid":"o"}]},"spec":{"nodeName":"n","count":3},"status":{"phase":"Running"}}`)
	object, err := action.CopyForRestore(archived, action.RestoreNames{Backup: "b", Restore: "r"})
	if err != nil {
		t.Fatal(err)
	}
	object.SetNamespace("office")
	return &itemaction.RestoreItem{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: object, Archived: archived,
		Restore: &itemaction.RestoreContext{NamespaceMapping: map[string]string{"shop": "office"}},
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

func wantRestoreError(t *testing.T, err error, want string) {
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
