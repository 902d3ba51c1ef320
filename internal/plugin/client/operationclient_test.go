// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/operation"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// fakeOperationAction is a catalog, a connection, and the behavior of actions.
type fakeOperationAction struct {
	resolve, err error
	hang         bool
	// found is the action that was looked up, asked are its requests.
	found string
	asked []any
}

func (f *fakeOperationAction) BackupItemAction(plugin, kind, action string) pluginclient.ResolveFunc[pluginclient.BackupItemAction] {
	return func() (pluginclient.Connection, pluginclient.BackupItemAction, error) {
		f.found = "backup " + plugin + " " + kind + " " + action
		return f, backing{fake: f}, f.resolve
	}
}

func (f *fakeOperationAction) RestoreItemAction(plugin, kind, action string) pluginclient.ResolveFunc[pluginclient.RestoreItemAction] {
	return func() (pluginclient.Connection, pluginclient.RestoreItemAction, error) {
		f.found = "restore " + plugin + " " + kind + " " + action
		return f, restoring{fake: f}, f.resolve
	}
}

// backing and restoring are the actions of backups and restores.
type (
	backing struct {
		pluginclient.BackupItemAction
		fake *fakeOperationAction
	}
	restoring struct {
		pluginclient.RestoreItemAction
		fake *fakeOperationAction
	}
)

func (b backing) Progress(_ context.Context, call pluginclient.ItemCall, op pluginclient.OperationRef) (item.Progress, error) {
	return b.fake.progress(call, op)
}

func (b backing) Cancel(_ context.Context, call pluginclient.ItemCall, op pluginclient.OperationRef) error {
	_, err := b.fake.progress(call, op)
	return err
}

func (r restoring) Progress(_ context.Context, call pluginclient.ItemCall, op pluginclient.OperationRef) (item.Progress, error) {
	return r.fake.progress(call, op)
}

func (f *fakeOperationAction) Begin(ctx context.Context, call host.Call) (host.OpenCall, error) {
	f.asked = append(f.asked, call.Key)
	if f.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return plugintesting.Call{CallID: "call-7"}, nil
}

func (f *fakeOperationAction) progress(call pluginclient.ItemCall, op pluginclient.OperationRef) (item.Progress, error) {
	f.asked = append(f.asked, call, op)
	return item.Progress{NCompleted: 3, Description: "with hunter22", OperationUnits: "hunter22", Err: "hunter22"}, f.err
}

var target = pluginclient.OperationTarget{
	Plugin: "example", Kind: "AsyncBackupItemAction", Action: "example.io/copy", ID: "job-1", Key: "uid", Parent: []byte("{}"),
	Parameters: map[string]string{"a": "b"},
}

func asker(f *fakeOperationAction) *pluginclient.OperationClient {
	return &pluginclient.OperationClient{Actions: f, Redactor: redact.New("hunter22"), Timeout: 30 * time.Second}
}

func TestOperationClient(t *testing.T) {
	t.Parallel()
	f := &fakeOperationAction{}
	progress, failure := asker(f).GetProgress(t.Context(), target)
	wantProgress := item.Progress{NCompleted: 3, Description: "with " + redact.Placeholder, OperationUnits: redact.Placeholder, Err: redact.Placeholder}
	if diff := cmp.Diff(wantProgress, progress); diff != "" || failure != nil {
		t.Errorf("failure %v, progress (-want +got):\n%s", failure, diff)
	}
	if failure := asker(f).CancelOperation(t.Context(), target); failure != nil {
		t.Errorf("failure %v", failure)
	}
	call := pluginclient.ItemCall{Action: "example.io/copy", CallID: "call-7", Key: "uid", Parameters: map[string]string{"a": "b"}}
	op := pluginclient.OperationRef{OperationID: "job-1", Parent: []byte("{}")}
	if diff := cmp.Diff([]any{"uid", call, op, "uid", call, op}, f.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	for kind, want := range map[string]string{
		"AsyncBackupItemAction": "backup", "BackupItemAction": "backup", "AsyncRestoreItemAction": "restore", "RestoreItemAction": "restore",
	} {
		of := target
		of.Kind = kind
		if _, failure := asker(f).GetProgress(t.Context(), of); failure != nil || f.found != want+" example "+kind+" example.io/copy" {
			t.Errorf("found %q for %s, failure %v", f.found, kind, failure)
		}
	}
}

// TestOperationClient_Failures checks the Failures for errors.
func TestOperationClient_Failures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fake fakeOperationAction
		want operation.Failure
	}{
		"not loaded":       {fake: fakeOperationAction{resolve: errors.New("the plugin is not loaded")}, want: operation.Failure{Text: "the plugin is not loaded"}},
		"no such action":   {fake: fakeOperationAction{resolve: fmt.Errorf("not provided: %w", pluginclient.ErrNoSuchAction)}, want: operation.Failure{Text: "not provided: no such action"}},
		"does not start":   {fake: fakeOperationAction{err: &host.StartError{Reason: host.ReasonInvalidSpec, Message: "no file"}}, want: operation.Failure{Text: "no file"}},
		"lost":             {fake: fakeOperationAction{err: &host.LostError{Message: "it crashed"}}, want: operation.Failure{Text: "it crashed"}},
		"failed":           {fake: fakeOperationAction{err: status.Error(codes.Unavailable, "no hunter22")}, want: operation.Failure{Answered: true, Text: "no " + redact.Placeholder}},
		"not implemented":  {fake: fakeOperationAction{err: status.Error(codes.Unimplemented, "no Progress")}, want: operation.Failure{Answered: true, Text: "no Progress"}},
		"out of contract":  {fake: fakeOperationAction{err: &pluginclient.ContractError{Message: "said 42"}}, want: operation.Failure{Answered: true, Text: "said 42"}},
		"unknown":          {fake: fakeOperationAction{err: &pluginclient.UnknownOperationError{}}, want: operation.Failure{Answered: true, Unknown: true}},
		"knows none":       {fake: fakeOperationAction{err: pluginclient.ErrOperationsUnsupported}, want: operation.Failure{Answered: true, Unknown: true}},
		"does not answer":  {fake: fakeOperationAction{hang: true}, want: operation.Failure{Text: "it did not answer within 30s"}},
		"other than an OK": {fake: fakeOperationAction{err: errors.New("odd")}, want: operation.Failure{Answered: true, Text: "odd"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				progress, poll := asker(&tc.fake).GetProgress(t.Context(), target)
				cancel := asker(&tc.fake).CancelOperation(t.Context(), target)
				if diff := cmp.Diff(poll, cancel); diff != "" || poll == nil || progress != (item.Progress{}) {
					t.Fatalf("progress %+v; failures differ:\n%s", progress, diff)
				}
				if poll.Text == "" {
					t.Error("it does not say why")
				}
				if tc.want.Text == "" {
					tc.want.Text = poll.Text
				}
				if diff := cmp.Diff(&tc.want, poll); diff != "" {
					t.Errorf("failure (-want +got):\n%s", diff)
				}
			})
		})
	}
}
