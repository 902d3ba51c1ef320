// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	asyncbackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncbackupitemaction/v1"
	asyncrestorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncrestoreitemaction/v1"
	backupv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v2"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	restorev2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v2"
)

type asyncBackup struct {
	asyncbackuppb.UnimplementedAsyncBackupItemActionServer
	*said
	id       string
	interval *durationpb.Duration
}

func (s asyncBackup) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	s.note(ctx, "applies", in.GetPlugin())
	return &itempb.AppliesToResponse{Selector: selector}, nil
}

func (s asyncBackup) Start(ctx context.Context, in *asyncbackuppb.StartRequest) (*asyncbackuppb.StartResponse, error) {
	s.note(ctx, "start", in.GetPlugin(), string(in.GetItem()), string(in.GetBackup()))
	return &asyncbackuppb.StartResponse{
		Item: []byte("changed"), AdditionalItems: []*itempb.ResourceIdentifier{reference}, OperationId: orOp(s.id),
		PostOperationItems: []*itempb.ResourceIdentifier{reference, reference}, PollInterval: s.interval,
	}, nil
}

func orOp(id string) string {
	if id == "" {
		return "op"
	}
	return strings.TrimPrefix(id, "-")
}

func (s asyncBackup) Progress(ctx context.Context, in *asyncbackuppb.ProgressRequest) (*asyncbackuppb.ProgressResponse, error) {
	s.note(ctx, "progress", in.GetPlugin(), in.GetOperationId(), string(in.GetBackup()))
	answer := &asyncbackuppb.ProgressResponse{Progress: progressFor(in.GetOperationId()), Cancelled: true, DataCaptured: true}
	if !answer.GetProgress().GetCompleted() {
		answer.Warning = "apart"
	}
	return answer, nil
}

// progressFor returns the progress of an operation; it is still running if its ID says so.
func progressFor(id string) *itempb.OperationProgress {
	if id == "going on" {
		return &itempb.OperationProgress{}
	}
	return progress
}

func (s asyncBackup) Cancel(ctx context.Context, in *asyncbackuppb.CancelRequest) (*emptypb.Empty, error) {
	s.note(ctx, "cancel", in.GetPlugin(), in.GetOperationId(), string(in.GetBackup()))
	return &emptypb.Empty{}, nil
}

type asyncRestore struct {
	asyncrestorepb.UnimplementedAsyncRestoreItemActionServer
	*said
	id                string
	interval, timeout *durationpb.Duration
}

func (s asyncRestore) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	s.note(ctx, "applies", in.GetPlugin())
	return &itempb.AppliesToResponse{Selector: selector}, nil
}

func (s asyncRestore) Start(ctx context.Context, in *asyncrestorepb.StartRequest) (*asyncrestorepb.StartResponse, error) {
	s.note(ctx, "start", in.GetPlugin(), string(in.GetItem()), string(in.GetItemFromBackup()), string(in.GetRestore()))
	return &asyncrestorepb.StartResponse{
		Item: []byte("changed"), AdditionalItems: []*itempb.ResourceIdentifier{reference}, OperationId: orOp(s.id),
		WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: s.timeout, PollInterval: s.interval,
	}, nil
}

func (s asyncRestore) Progress(ctx context.Context, in *asyncrestorepb.ProgressRequest) (*asyncrestorepb.ProgressResponse, error) {
	s.note(ctx, "progress", in.GetPlugin(), in.GetOperationId(), string(in.GetRestore()))
	return &asyncrestorepb.ProgressResponse{Progress: progressFor(in.GetOperationId()), Cancelled: true, DataCaptured: true}, nil
}

func (s asyncRestore) Cancel(ctx context.Context, in *asyncrestorepb.CancelRequest) (*emptypb.Empty, error) {
	s.note(ctx, "cancel", in.GetPlugin(), in.GetOperationId(), string(in.GetRestore()))
	return &emptypb.Empty{}, nil
}

func (s asyncRestore) AreAdditionalItemsReady(
	ctx context.Context, in *asyncrestorepb.AreAdditionalItemsReadyRequest,
) (*asyncrestorepb.AreAdditionalItemsReadyResponse, error) {
	s.note(ctx, "ready", in.GetPlugin(), string(in.GetRestore()), in.GetAdditionalItems()[0].GetName())
	return &asyncrestorepb.AreAdditionalItemsReadyResponse{}, nil
}

// serveAsync serves both kinds of asynchronous actions.
func serveAsync(t *testing.T, backup asyncBackup, restore asyncRestore) *grpc.ClientConn {
	t.Helper()
	backup.said, restore.said = &said{}, &said{}
	return serve(t, func(s *grpc.Server) {
		asyncbackuppb.RegisterAsyncBackupItemActionServer(s, backup)
		asyncrestorepb.RegisterAsyncRestoreItemActionServer(s, restore)
	})
}

func TestToNonNegativeDuration(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   *durationpb.Duration
		want time.Duration
		bad  bool
	}{
		"none":            {},
		"zero":            {in: durationpb.New(0)},
		"a minute":        {in: durationpb.New(time.Minute), want: time.Minute},
		"longer than any": {in: &durationpb.Duration{Seconds: 315_576_000_000}, want: 1<<63 - 1},
		"negative":        {in: durationpb.New(-1), bad: true},
		"broken":          {in: &durationpb.Duration{Seconds: 1, Nanos: -1}, bad: true},
		"too long":        {in: &durationpb.Duration{Seconds: 315_576_000_001}, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := serveAsync(t, asyncBackup{interval: tc.in}, asyncRestore{interval: tc.in})
			backup, err := asyncBackupItemActionV1{}.Execute(t.Context(), callOn(conn), nil, nil)
			if bad := errors.As(err, new(*ContractError)); bad != tc.bad || backup.PollInterval != tc.want {
				t.Errorf("the interval of a backup is %s, error %v", backup.PollInterval, err)
			}
			if backup.OperationID == "" {
				t.Error("the started operation cannot be canceled")
			}
			restore, err := asyncRestoreItemActionV1{}.Execute(t.Context(), callOn(conn), object())
			if bad := errors.As(err, new(*ContractError)); bad != tc.bad || restore.PollInterval != tc.want {
				t.Errorf("the interval of a restore is %s, error %v", restore.PollInterval, err)
			}
			conn = serveAsync(t, asyncBackup{}, asyncRestore{timeout: tc.in})
			restore, err = asyncRestoreItemActionV1{}.Execute(t.Context(), callOn(conn), object())
			if bad := errors.As(err, new(*ContractError)); bad != tc.bad || restore.WaitTimeout != tc.want {
				t.Errorf("the timeout of a restore is %s, error %v", restore.WaitTimeout, err)
			}
		})
	}
}

// TestAsyncBackupItemActionV1_LongOperationID checks that long IDs are returned: callers validate IDs, and can
// cancel operations that they do not store.
func TestAsyncBackupItemActionV1_LongOperationID(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"empty": "", "of 1 MiB": strings.Repeat("x", 1<<20)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := serveAsync(t, asyncBackup{id: "-" + id}, asyncRestore{id: "-" + id})
			backup, err := asyncBackupItemActionV1{}.Execute(t.Context(), callOn(conn), nil, nil)
			if err != nil || backup.OperationID != id {
				t.Errorf("the ID of a backup has %d bytes, error %v", len(backup.OperationID), err)
			}
			restore, err := asyncRestoreItemActionV1{}.Execute(t.Context(), callOn(conn), object())
			if err != nil || restore.OperationID != id {
				t.Errorf("the ID of a restore has %d bytes, error %v", len(restore.OperationID), err)
			}
			for _, action := range []Operations{asyncBackupItemActionV1{}, asyncRestoreItemActionV1{}} {
				if err := action.Cancel(t.Context(), callOn(conn), OperationRef{OperationID: id}); err != nil {
					t.Errorf("Cancel: %v", err)
				}
			}
		})
	}
}

func TestProgress_RunningIsNotCanceled(t *testing.T) {
	t.Parallel()
	conn := serveAsync(t, asyncBackup{}, asyncRestore{})
	for action, want := range map[Operations]item.Progress{
		asyncBackupItemActionV1{}: {DataCaptured: true, Warning: "apart"}, asyncRestoreItemActionV1{}: {DataCaptured: true},
	} {
		got, err := action.Progress(t.Context(), callOn(conn), OperationRef{OperationID: "going on"})
		if err != nil || got != want {
			t.Errorf("the progress of %T is %+v, %v", action, got, err)
		}
	}
}

func TestWarmUpHandlers_AsyncActions(t *testing.T) {
	t.Parallel()
	said := &said{}
	conn := serve(t, func(s *grpc.Server) {
		asyncbackuppb.RegisterAsyncBackupItemActionServer(s, asyncBackup{said: said})
		asyncrestorepb.RegisterAsyncRestoreItemActionServer(s, asyncRestore{said: said})
	})
	actions := []ListedAction{
		{Kind: string(sdk.KindAsyncBackupItemAction), Version: sdk.V1, Name: "x.io/b"},
		{Kind: string(sdk.KindAsyncRestoreItemAction), Version: sdk.V1, Name: "x.io/r"},
	}
	if err := WarmUpHandlers(t.Context(), conn, SupportedKinds(), actions); err != nil {
		t.Fatal(err)
	}
	if want := []string{"applies x.io/b", "applies x.io/r"}; !slices.Equal(said.requests, want) {
		t.Errorf("said %q, want %q", said.requests, want)
	}
}

// failing serves every kind that has operations and returns one error for all calls.
func failing(t *testing.T, err error) *grpc.ClientConn {
	t.Helper()
	answer := func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) { return nil, err }
	return serve(t, func(s *grpc.Server) {
		asyncbackuppb.RegisterAsyncBackupItemActionServer(s, asyncBackup{})
		asyncrestorepb.RegisterAsyncRestoreItemActionServer(s, asyncRestore{})
		proto.RegisterVelero(s, &backupv2pb.BackupItemAction_ServiceDesc, backupV2{})
		proto.RegisterVelero(s, &restorev2pb.RestoreItemAction_ServiceDesc, restoreV2{})
	}, grpc.UnaryInterceptor(answer))
}

func TestProgress_UnknownOperation(t *testing.T) {
	t.Parallel()
	const id = "ns/du-1"
	for name, tc := range map[string]struct {
		err  error
		want string // "" means that the error does not concern the operation
	}{
		"of the SDK":           {err: status.Error(codes.NotFound, "no job du-1"), want: "no job du-1"},
		"without a message":    {err: status.Error(codes.NotFound, ""), want: "it does not know the operation"},
		"of Velero":            {err: status.Error(codes.Unknown, "Operation ID "+id+" is invalid."), want: "Operation ID ns/du-1 is invalid."},
		"of Velero, wrapped":   {err: status.Error(codes.Unknown, "getting it: Operation ID "+id+" is invalid."), want: "getting it: Operation ID"},
		"of a later Velero":    {err: status.Error(codes.Unknown, "operation ID "+id+" is invalid"), want: "operation ID ns/du-1 is invalid"},
		"of Velero, none":      {err: status.Error(codes.Unknown, "Plugin does not support asynchronous operations"), want: "does not support"},
		"another operation":    {err: status.Error(codes.Unknown, "Operation ID ns/du-2 is invalid.")},
		"another error":        {err: status.Error(codes.Unknown, "the API server is down")},
		"another code":         {err: status.Error(codes.InvalidArgument, "Operation ID "+id+" is invalid.")},
		"no such plugin":       {err: status.Error(codes.Unknown, "RestoreItemActionV2 plugin: x.io/a was not found or has an invalid name format")},
		"no such method":       {err: status.Error(codes.Unimplemented, "unknown method Progress")},
		"a panic that says so": {err: status.Error(codes.Aborted, "plugin panicked: Operation ID "+id+" is invalid.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := failing(t, tc.err)
			for _, action := range []Operations{backupItemActionV2{}, restoreItemActionV2{}, asyncBackupItemActionV1{}, asyncRestoreItemActionV1{}} {
				_, progressErr := action.Progress(t.Context(), callOn(conn), OperationRef{OperationID: id})
				cancelErr := action.Cancel(t.Context(), callOn(conn), OperationRef{OperationID: id})
				for what, err := range map[string]error{"Progress": progressErr, "Cancel": cancelErr} {
					if status.Code(err) != status.Code(tc.err) || errors.Is(err, ErrUnknownOperation) != (tc.want != "") || !strings.Contains(err.Error(), tc.want) {
						t.Errorf("%s of %T: error is %v, want %q", what, action, err, tc.want)
					}
				}
			}
		})
	}
	if !errors.Is(ErrOperationsUnsupported, ErrUnknownOperation) {
		t.Error("a version without operations returned operations")
	}
}

// TestExecute_NotFoundIsNoUnknownOperation checks that errors of other calls never mean an
// unknown operation: a framework may return them for an unknown name.
func TestExecute_NotFoundIsNoUnknownOperation(t *testing.T) {
	t.Parallel()
	conn := failing(t, status.Error(codes.NotFound, "no such plugin"))
	errs := map[string]error{}
	for name, action := range map[string]BackupItemAction{"v2": backupItemActionV2{}, "async": asyncBackupItemActionV1{}} {
		_, errs[name+" backup applies"] = action.AppliesTo(t.Context(), callOn(conn))
		_, errs[name+" backup execute"] = action.Execute(t.Context(), callOn(conn), nil, nil)
	}
	for name, action := range map[string]RestoreItemAction{"v2": restoreItemActionV2{}, "async": asyncRestoreItemActionV1{}} {
		_, errs[name+" restore applies"] = action.AppliesTo(t.Context(), callOn(conn))
		_, errs[name+" restore execute"] = action.Execute(t.Context(), callOn(conn), object())
		_, errs[name+" restore ready"] = action.AreAdditionalItemsReady(t.Context(), callOn(conn), wantRefs, nil)
	}
	for name, err := range errs {
		if status.Code(err) != codes.NotFound || errors.Is(err, ErrUnknownOperation) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// callOn returns a call over a connection.
func callOn(conn grpc.ClientConnInterface) ItemCall {
	out := call
	out.Conn = conn
	return out
}

// TestToVeleroItemProgress_DataCaptured checks when an operation of Velero's messages, which have no
// field for it, has captured its data: when it starts to report progress.
func TestToVeleroItemProgress_DataCaptured(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   *itempb.OperationProgress
		want bool
	}{
		"nothing":            {in: &itempb.OperationProgress{}},
		"not started yet":    {in: &itempb.OperationProgress{Started: timestamppb.New(time.Unix(0, 0)), Updated: timestamppb.New(time.Now())}},
		"time of its start":  {in: &itempb.OperationProgress{Started: timestamppb.New(time.Now())}, want: true},
		"total":              {in: &itempb.OperationProgress{NTotal: 5}, want: true},
		"without a total":    {in: &itempb.OperationProgress{NCompleted: 5}, want: true},
		"no progress at all": {},
	} {
		if got := toVeleroItemProgress(tc.in).DataCaptured; got != tc.want {
			t.Errorf("%s: captured is %t, want %t", name, got, tc.want)
		}
	}
}

// checkingBackup implements the optional method.
type checkingBackup struct{ asyncBackup }

func (checkingBackup) CheckCapture(_ context.Context, in *asyncbackuppb.CheckCaptureRequest) (*asyncbackuppb.CheckCaptureResponse, error) {
	if string(in.GetItem()) == "broken" {
		return nil, status.Error(codes.Unknown, "no connection")
	}
	return &asyncbackuppb.CheckCaptureResponse{DataNotCaptured: in.GetPlugin() + " cannot read " + string(in.GetItem())}, nil
}

func TestAsyncBackupItemActionV1_CheckCapture(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server  asyncbackuppb.AsyncBackupItemActionServer
		object  string
		want    string
		wantErr codes.Code
	}{
		"a reason":              {server: checkingBackup{}, object: "claim", want: "example.io/act cannot read claim"},
		"an error":              {server: checkingBackup{}, object: "broken", wantErr: codes.Unknown},
		"a plugin without it":   {server: asyncBackup{}},
		"an older kind of call": {server: asyncbackuppb.UnimplementedAsyncBackupItemActionServer{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := serve(t, func(s *grpc.Server) { asyncbackuppb.RegisterAsyncBackupItemActionServer(s, tc.server) })
			call := callOn(conn)
			call.Action = "example.io/act"
			got, err := asyncBackupItemActionV1{}.CheckCapture(t.Context(), call, []byte(tc.object), nil)
			if got != tc.want || status.Code(err) != tc.wantErr {
				t.Errorf("not captured: %q, error %v", got, err)
			}
		})
	}
}
