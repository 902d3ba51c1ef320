// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// starting answers every object with an operation.
func starting(context.Context, []byte) (BackupItemAnswer, error) {
	return BackupItemAnswer{OperationID: "op-1"}, nil
}

// startedRef is what the fake must be called with.
var startedRef = OperationRef{OperationID: "op-1", Parent: []byte(`{"kind":"Backup"}`)}

// execute sends the pod to an action and returns its operation.
func execute(t *testing.T, a itemaction.BackupPluginAction) *itemaction.Operation {
	t.Helper()
	if err := a.ResolveSelector(t.Context(), backupNames{}); err != nil {
		t.Fatal(err)
	}
	got, err := a.Execute(t.Context(), podItem())
	if err != nil || got.Operation == nil {
		t.Fatalf("result %+v, error %v; want an operation", got, err)
	}
	return got.Operation
}

func cancelBackupOperation(ctx context.Context, a itemaction.BackupAction, op *itemaction.Operation) error {
	return a.(itemaction.OperationStarter[itemaction.BackupItem]).CancelOperation(ctx, podItem(), op.ID)
}

func TestBackupItemAction_CancelOperation(t *testing.T) {
	t.Parallel()
	f := &fakeBackupAction{answer: starting}
	a := startedBackupOperation(f, func(s *BackupItemActionSpec) { s.Kind = "AsyncBackupItemAction" })
	op := execute(t, a)
	if kind := a.Kind(); kind != "AsyncBackupItemAction" {
		t.Errorf("kind %q", kind)
	}
	// The run may have ended.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantBackupError(t, cancelBackupOperation(ctx, a, op), "")
	if diff := cmp.Diff([]OperationRef{startedRef}, f.cancelled); diff != "" {
		t.Errorf("canceled (-want +got):\n%s", diff)
	}
	if last := f.time[len(f.time)-1]; last != CancelTimeout {
		t.Errorf("Cancel has %s, want %s", last, CancelTimeout)
	}
	f.refuseCancel = status.Error(codes.Unknown, "hunter22222 is copying")
	wantBackupError(t, cancelBackupOperation(ctx, a, op), `plugin "demo": [REDACTED] is copying`)
}

// An action that hangs is given up, but what it started before is canceled.
func TestBackupItemAction_CancelWithOpenCircuit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBackupAction{answer: starting}
		a := startedBackupOperation(f)
		op := execute(t, a)
		f.answer = func(ctx context.Context, _ []byte) (BackupItemAnswer, error) {
			<-ctx.Done()
			return BackupItemAnswer{}, ctx.Err()
		}
		for range 4 {
			_, _ = a.Execute(t.Context(), podItem()) // only the calls matter
		}
		wantBackupError(t, cancelBackupOperation(t.Context(), a, op), "")
		if len(f.cancelled) != 1 {
			t.Errorf("canceled %v", f.cancelled)
		}
	})
}

// An operation is canceled if its answer came too late or violated the contract. If the
// cancellation fails too, an error reports that.
func TestBackupItemAction_CancelRejectedOperation(t *testing.T) {
	t.Parallel()
	contract := &ContractError{Message: "named 10001 objects"}
	broken := func(context.Context, []byte) (BackupItemAnswer, error) {
		return BackupItemAnswer{OperationID: "op-1"}, contract
	}
	f := &fakeBackupAction{answer: broken, refuseCancel: status.Error(codes.Unknown, "busy")}
	_, err := startedBackupOperation(f).Execute(t.Context(), podItem())
	wantBackupError(t, err, `plugin "demo": named 10001 objects; it had started the operation "op-1", which could not be canceled and may still be running: busy`)

	f = &fakeBackupAction{answer: starting}
	ctx, cancel := context.WithCancel(t.Context())
	f.answer = func(ctx context.Context, object []byte) (BackupItemAnswer, error) {
		cancel()
		return starting(ctx, object)
	}
	_, err = startedBackupOperation(f).Execute(ctx, podItem())
	wantBackupError(t, err, `plugin "demo": was interrupted before it answered; it had started the operation "op-1", which was canceled`)
	if diff := cmp.Diff([]OperationRef{startedRef}, f.cancelled); diff != "" {
		t.Errorf("canceled (-want +got):\n%s", diff)
	}

	synctest.Test(t, func(t *testing.T) {
		f := &fakeBackupAction{answer: func(ctx context.Context, object []byte) (BackupItemAnswer, error) {
			<-ctx.Done()
			return starting(ctx, object)
		}}
		got, err := startedBackupOperation(f, func(s *BackupItemActionSpec) { s.IgnoreFailure = true; s.Timeout = time.Minute }).Execute(t.Context(), podItem())
		wantBackupError(t, err, "")
		want := itemaction.Result{Warnings: []string{`item action example.io/annotate was ignored, and the object is archived as it is: ` +
			`plugin "demo": did not answer before its deadline: raise its timeout or check what it waits for; ` +
			`it had started the operation "op-1", which was canceled`}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	})
}
