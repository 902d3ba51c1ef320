// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	asyncbackupitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncbackupitemaction/v1"
	asyncrestoreitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncrestoreitemaction/v1"
	backupitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v2"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	restoreitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v2"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
)

// operated returns the progress of an operation by its ID. Actions of every kind and
// version in these tests return the same.
func operated(id, run string) (*item.Progress, error) {
	switch id {
	case "unknown":
		return nil, fmt.Errorf("no job %s of %s: %w", id, run, item.ErrUnknownOperation)
	case "unreachable":
		return nil, status.Error(codes.NotFound, "the service of jobs has moved")
	case "cancelled":
		return &item.Progress{Completed: true, Cancelled: true, Description: id + " of " + run}, nil
	case "failed and cancelled":
		return &item.Progress{Completed: true, Cancelled: true, Err: "stopped half-way"}, nil
	case "being cancelled":
		return &item.Progress{Cancelled: true}, nil
	case "captured":
		return &item.Progress{DataCaptured: true}, nil
	default:
		return nil, nil
	}
}

// asyncBackup is an AsyncBackupItemAction.
type asyncBackup struct {
	backupItem
	started *asyncbackupitemv1.Started
	err     error
	saw     func(ctx context.Context, req *item.BackupRequest)
}

func (a *asyncBackup) Start(ctx context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	if a.saw != nil {
		a.saw(ctx, req)
	}
	return a.started, a.err
}

func (*asyncBackup) Progress(_ context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	return operated(req.OperationID, req.Backup.Name)
}

func (*asyncBackup) Cancel(_ context.Context, req *asyncbackupitemv1.OperationRequest) error {
	_, err := operated(req.OperationID, req.Backup.Name)
	return err
}

func connectAsyncBackup(t *testing.T, action *asyncBackup) asyncbackupitempb.AsyncBackupItemActionClient {
	t.Helper()
	conn, _ := connect(t, New().RegisterAsyncBackupItemActionV1(testName,
		func() (asyncbackupitemv1.AsyncBackupItemAction, error) { return action, nil }))
	return asyncbackupitempb.NewAsyncBackupItemActionClient(conn)
}

func TestAsyncBackupItemAction_Start(t *testing.T) {
	t.Parallel()
	ref, message := item.Ref{Resource: "r", Name: "n"}, &itempb.ResourceIdentifier{Resource: "r", Name: "n"}
	for name, tc := range map[string]struct {
		started *asyncbackupitemv1.Started
		err     error
		want    *asyncbackupitempb.StartResponse
		wantErr string
	}{
		"nothing": {want: &asyncbackupitempb.StartResponse{Item: []byte(testItem)}},
		"an operation": {
			started: &asyncbackupitemv1.Started{OperationID: "op"},
			want:    &asyncbackupitempb.StartResponse{Item: []byte(testItem), OperationId: "op"},
		},
		"all": {
			started: &asyncbackupitemv1.Started{
				BackupResponse: item.BackupResponse{AdditionalItems: []item.Ref{ref}},
				OperationID:    "op", PostOperationItems: []item.Ref{ref, ref}, PollInterval: time.Minute, DataNotCaptured: "no driver",
			},
			want: &asyncbackupitempb.StartResponse{
				Item: []byte(testItem), AdditionalItems: []*itempb.ResourceIdentifier{message}, OperationId: "op",
				PostOperationItems: []*itempb.ResourceIdentifier{message, message}, PollInterval: durationpb.New(time.Minute),
				DataNotCaptured: "no driver",
			},
		},
		"an error":                      {err: errors.New("no place for it"), wantErr: "no place for it"},
		"negative interval":             {started: &asyncbackupitemv1.Started{PollInterval: -1}, wantErr: "-1ns as the time between two calls of Progress"},
		"too many post-operation items": {started: &asyncbackupitemv1.Started{PostOperationItems: make([]item.Ref, item.MaxRefs+1)}, wantErr: "10001 post-operation items"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := connectAsyncBackup(t, &asyncBackup{started: tc.started, err: tc.err}).Start(t.Context(),
				&asyncbackupitempb.StartRequest{Plugin: testName, Item: []byte(testItem), Backup: []byte(testBackup)})
			if tc.wantErr != "" {
				if status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || !gproto.Equal(got, tc.want) {
				t.Errorf("the response is %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

// checkingBackup is an AsyncBackupItemAction that knows what it would capture.
type checkingBackup struct{ asyncBackup }

func (*checkingBackup) CheckCapture(_ context.Context, req *item.BackupRequest) (string, error) {
	return "no snapshots of " + req.Item.GetName() + " for " + req.Backup.Name, nil
}

func TestAsyncBackupItemAction_CheckCapture(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		action asyncbackupitemv1.AsyncBackupItemAction
		want   string
		code   codes.Code
	}{
		"a CaptureChecker": {action: &checkingBackup{}, want: "no snapshots of web for nightly"},
		"without":          {action: &asyncBackup{}, code: codes.Unimplemented},
	} {
		conn, _ := connect(t, New().RegisterAsyncBackupItemActionV1(testName,
			func() (asyncbackupitemv1.AsyncBackupItemAction, error) { return tc.action, nil }))
		got, err := asyncbackupitempb.NewAsyncBackupItemActionClient(conn).CheckCapture(t.Context(),
			&asyncbackupitempb.CheckCaptureRequest{Plugin: testName, Item: []byte(testItem), Backup: []byte(testBackup)})
		if got.GetDataNotCaptured() != tc.want || status.Code(err) != tc.code {
			t.Errorf("%s: not captured: %q, error %v", name, got.GetDataNotCaptured(), err)
		}
	}
}

func TestAsyncBackupItemAction_Request(t *testing.T) {
	t.Parallel()
	var got *item.BackupRequest
	var size string
	client := connectAsyncBackup(t, &asyncBackup{saw: func(ctx context.Context, req *item.BackupRequest) {
		got, size = req, sdk.Parameters(ctx)["size"]
	}})
	selector, err := client.AppliesTo(t.Context(), &itempb.AppliesToRequest{Plugin: testName})
	if err != nil || selector.GetSelector().GetSelector() != "e=f" {
		t.Errorf("the selector is %v, %v", selector, err)
	}
	_, err = client.Start(asOperator(t.Context(), "7", "run", `{"size":"groß"}`),
		&asyncbackupitempb.StartRequest{Plugin: testName, Item: []byte(testItem), Backup: []byte(testBackup)})
	if err != nil || got.Item.GetName() != "web" || got.Backup.Name != "nightly" || size != "groß" {
		t.Errorf("got %+v and the parameter %q, %v", got, size, err)
	}
	for name, in := range map[string]*asyncbackupitempb.StartRequest{
		"item":   {Plugin: testName, Item: []byte("x"), Backup: []byte(testBackup)},
		"backup": {Plugin: testName, Item: []byte(testItem), Backup: []byte("x")},
	} {
		if _, err := client.Start(t.Context(), in); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a call whose %s cannot be read: error is %v", name, err)
		}
	}
	_, err = client.Progress(t.Context(), &asyncbackupitempb.ProgressRequest{Plugin: "example.io/other", OperationId: "unknown", Backup: []byte(testBackup)})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("Progress of a missing action: error is %v, want one that does not mention the operation", err)
	}
}

// asyncRestore is an AsyncRestoreItemAction.
type asyncRestore struct {
	backupItem
	started *asyncrestoreitemv1.Started
	seen    *item.RestoreRequest
}

func (a *asyncRestore) Start(_ context.Context, req *item.RestoreRequest) (*asyncrestoreitemv1.Started, error) {
	a.seen = req
	return a.started, nil
}

func (*asyncRestore) Progress(_ context.Context, req *asyncrestoreitemv1.OperationRequest) (*item.Progress, error) {
	return operated(req.OperationID, req.Restore.Name)
}

func (*asyncRestore) Cancel(_ context.Context, req *asyncrestoreitemv1.OperationRequest) error {
	_, err := operated(req.OperationID, req.Restore.Name)
	return err
}

func (*asyncRestore) AreAdditionalItemsReady(_ context.Context, req *asyncrestoreitemv1.ReadyRequest) (bool, error) {
	return req.Restore.Name == "again" && req.AdditionalItems[0] == item.Ref{Resource: "r", Namespace: "new", Name: "n"}, nil
}

func TestAsyncRestoreItemAction(t *testing.T) {
	t.Parallel()
	const moving = `{"apiVersion":"velero.io/v1","kind":"Restore","metadata":{"name":"again"},"spec":{"backupName":"nightly","namespaceMapping":{"old":"new"}}}`
	action := &asyncRestore{}
	conn, _ := connect(t, New().RegisterAsyncRestoreItemActionV1(testName,
		func() (asyncrestoreitemv1.AsyncRestoreItemAction, error) { return action, nil }))
	client := asyncrestoreitempb.NewAsyncRestoreItemActionClient(conn)
	request := &asyncrestoreitempb.StartRequest{Plugin: testName, Item: []byte(testItem), ItemFromBackup: []byte(`{"kind":"Pod"}`), Restore: []byte(moving)}
	ref := item.Ref{Resource: "r", Namespace: "old", Name: "n"}
	message := []*itempb.ResourceIdentifier{{Resource: "r", Namespace: "old", Name: "n"}}
	for _, tc := range []struct {
		started *asyncrestoreitemv1.Started
		want    *asyncrestoreitempb.StartResponse
	}{
		{want: &asyncrestoreitempb.StartResponse{Item: []byte(testItem)}},
		{
			started: &asyncrestoreitemv1.Started{
				RestoreResponse: item.RestoreResponse{SkipRestore: true, AdditionalItems: []item.Ref{ref}}, OperationID: "op",
				PollInterval: time.Second, WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: time.Minute,
			},
			want: &asyncrestoreitempb.StartResponse{
				Item: []byte(testItem), SkipRestore: true, AdditionalItems: message, OperationId: "op", PollInterval: durationpb.New(time.Second),
				WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: durationpb.New(time.Minute),
			},
		},
	} {
		action.started = tc.started
		if got, err := client.Start(t.Context(), request); err != nil || !gproto.Equal(got, tc.want) {
			t.Errorf("the response is %v, %v, want %v", got, err, tc.want)
		}
	}
	if seen := action.seen; seen.ItemFromBackup.GetKind() != "Pod" || seen.Item.GetName() != "web" || seen.Restore.BackupName != "nightly" {
		t.Errorf("got %+v", seen)
	}
	ready, err := client.AreAdditionalItemsReady(t.Context(), &asyncrestoreitempb.AreAdditionalItemsReadyRequest{
		Plugin: testName, Restore: []byte(moving), AdditionalItems: message,
	})
	if err != nil || !ready.GetReady() {
		t.Errorf("ready is %v, %v, want the items in their target namespaces", ready, err)
	}
	for want, started := range map[string]*asyncrestoreitemv1.Started{
		"to wait for additional items": {AdditionalItemsReadyTimeout: -1},
		"between two calls":            {PollInterval: -1},
	} {
		action.started = started
		if _, err := client.Start(t.Context(), request); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error of a negative interval is %v, want %q", err, want)
		}
	}
}

// operations calls Progress and Cancel for any kind and version; cancelled is nil for
// versions without that field.
type operations struct {
	progress func(ctx context.Context, id string) (*itempb.OperationProgress, *bool, error)
	cancel   func(ctx context.Context, id string) (*emptypb.Empty, error)
}

// secondOperated and restoringOperated are actions of version 2 that respond with operated.
type secondOperated struct{ second }

func (secondOperated) Progress(_ context.Context, req *backupitemv2.OperationRequest) (*item.Progress, error) {
	return operated(req.OperationID, req.Backup.Name)
}

func (secondOperated) Cancel(_ context.Context, req *backupitemv2.OperationRequest) error {
	_, err := operated(req.OperationID, req.Backup.Name)
	return err
}

type restoringOperated struct{ *restoring }

func (restoringOperated) Progress(_ context.Context, req *restoreitemv2.OperationRequest) (*item.Progress, error) {
	return operated(req.OperationID, req.Restore.Name)
}

func (restoringOperated) Cancel(_ context.Context, req *restoreitemv2.OperationRequest) error {
	_, err := operated(req.OperationID, req.Restore.Name)
	return err
}

func backupOperations(conn grpc.ClientConnInterface) map[string]operations {
	second := backupitemv2pb.NewBackupItemActionClient(proto.VeleroConn(conn))
	async := asyncbackupitempb.NewAsyncBackupItemActionClient(conn)
	return map[string]operations{
		"BackupItemAction v2": {
			progress: func(ctx context.Context, id string) (*itempb.OperationProgress, *bool, error) {
				out, err := second.Progress(ctx, &backupitemv2pb.ProgressRequest{Plugin: testName, OperationID: id, Backup: []byte(testBackup)})
				return out.GetProgress(), nil, err
			},
			cancel: func(ctx context.Context, id string) (*emptypb.Empty, error) {
				return second.Cancel(ctx, &backupitemv2pb.CancelRequest{Plugin: testName, OperationID: id, Backup: []byte(testBackup)})
			},
		},
		"AsyncBackupItemAction v1": {
			progress: func(ctx context.Context, id string) (*itempb.OperationProgress, *bool, error) {
				out, err := async.Progress(ctx, &asyncbackupitempb.ProgressRequest{Plugin: testName, OperationId: id, Backup: []byte(testBackup)})
				return out.GetProgress(), new(out.GetCancelled()), err
			},
			cancel: func(ctx context.Context, id string) (*emptypb.Empty, error) {
				return async.Cancel(ctx, &asyncbackupitempb.CancelRequest{Plugin: testName, OperationId: id, Backup: []byte(testBackup)})
			},
		},
	}
}

func restoreOperations(conn grpc.ClientConnInterface) map[string]operations {
	second := restoreitemv2pb.NewRestoreItemActionClient(proto.VeleroConn(conn))
	async := asyncrestoreitempb.NewAsyncRestoreItemActionClient(conn)
	return map[string]operations{
		"RestoreItemAction v2": {
			progress: func(ctx context.Context, id string) (*itempb.OperationProgress, *bool, error) {
				out, err := second.Progress(ctx, &restoreitemv2pb.ProgressRequest{Plugin: testName, OperationID: id, Restore: []byte(testRestore)})
				return out.GetProgress(), nil, err
			},
			cancel: func(ctx context.Context, id string) (*emptypb.Empty, error) {
				return second.Cancel(ctx, &restoreitemv2pb.CancelRequest{Plugin: testName, OperationID: id, Restore: []byte(testRestore)})
			},
		},
		"AsyncRestoreItemAction v1": {
			progress: func(ctx context.Context, id string) (*itempb.OperationProgress, *bool, error) {
				out, err := async.Progress(ctx, &asyncrestoreitempb.ProgressRequest{Plugin: testName, OperationId: id, Restore: []byte(testRestore)})
				return out.GetProgress(), new(out.GetCancelled()), err
			},
			cancel: func(ctx context.Context, id string) (*emptypb.Empty, error) {
				return async.Cancel(ctx, &asyncrestoreitempb.CancelRequest{Plugin: testName, OperationId: id, Restore: []byte(testRestore)})
			},
		},
	}
}

// TestCallActionProgress calls every kind and version that has operations for the same operations.
func TestCallActionProgress(t *testing.T) {
	t.Parallel()
	conn, _ := connect(t, New().
		RegisterBackupItemActionV2(testName, func() (backupitemv2.BackupItemAction, error) { return secondOperated{}, nil }).
		RegisterRestoreItemActionV2(testName, func() (restoreitemv2.RestoreItemAction, error) { return restoringOperated{}, nil }).
		RegisterAsyncBackupItemActionV1(testName, func() (asyncbackupitemv1.AsyncBackupItemAction, error) { return &asyncBackup{}, nil }).
		RegisterAsyncRestoreItemActionV1(testName, func() (asyncrestoreitemv1.AsyncRestoreItemAction, error) { return &asyncRestore{}, nil }))
	for run, versions := range map[string]map[string]operations{"nightly": backupOperations(conn), "again": restoreOperations(conn)} {
		for name, asked := range versions {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkOperations(t, asked, run)
			})
		}
	}
}

func checkOperations(t *testing.T, asked operations, run string) {
	t.Helper()
	for id, want := range map[string]struct {
		code codes.Code
		text string
	}{
		"unknown":     {code: codes.NotFound, text: "no job unknown of " + run + ": the operation is not known"},
		"unreachable": {code: codes.Unknown, text: "the service of jobs has moved"},
	} {
		_, _, err := asked.progress(t.Context(), id)
		if status.Code(err) != want.code || !strings.Contains(err.Error(), want.text) {
			t.Errorf("Progress of %q: error is %v, want %s with %q", id, err, want.code, want.text)
		}
		if _, err := asked.cancel(t.Context(), id); status.Code(err) != want.code || !strings.Contains(err.Error(), want.text) {
			t.Errorf("Cancel of %q: error is %v, want %s with %q", id, err, want.code, want.text)
		}
	}
	if _, _, err := asked.progress(t.Context(), "silent"); err == nil || !strings.Contains(err.Error(), "no progress and no error") {
		t.Errorf("error without a progress is %v", err)
	}
	if _, err := asked.cancel(t.Context(), "cancelled"); err != nil {
		t.Errorf("Cancel: %v", err)
	}
	for id, want := range map[string]struct {
		said string // for a host that knows canceled operations
		err  string // for a host that does not
	}{
		"cancelled":            {err: "cancelled"},
		"failed and cancelled": {said: "stopped half-way", err: "stopped half-way"},
		"being cancelled":      {},
	} {
		got, cancelled, err := asked.progress(t.Context(), id)
		wantErr := want.err
		if cancelled != nil {
			wantErr = want.said
		}
		if err != nil || got.GetErr() != wantErr || got.GetCompleted() != (id != "being cancelled") || cancelled != nil && !*cancelled {
			t.Errorf("the progress of %q is %v (%v), want the error %q", id, got, err, wantErr)
		}
	}
}
