// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	asyncbackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncbackupitemaction/v1"
	asyncrestorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncrestoreitemaction/v1"
	backupv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v1"
	backupv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v2"
	deletepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	restorev1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v1"
	restorev2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v2"
)

// serve returns a connection to a server with the services that install registers.
func serve(t *testing.T, install func(*grpc.Server), options ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(options...)
	install(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}

var (
	call      = ItemCall{Action: "x.io/a", CallID: "7", Key: "run", Parameters: map[string]string{"size": "groß"}}
	selector  = &itempb.ResourceSelector{IncludedNamespaces: []string{"a"}, ExcludedNamespaces: []string{"b"}, IncludedResources: []string{"c"}, ExcludedResources: []string{"d"}, Selector: "e=f"}
	reference = &itempb.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}
	wantRefs  = []item.Ref{{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}}
	started   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	progress  = &itempb.OperationProgress{Completed: true, Err: "e", NCompleted: 1, NTotal: 2, OperationUnits: "bytes", Description: "d", Started: timestamppb.New(started)}
)

// said collects the requests of the services.
type said struct{ requests []string }

// note records the parts of a request and its metadata.
func (s *said) note(ctx context.Context, parts ...string) {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, name := range []string{proto.MetadataCall, proto.MetadataKey, proto.MetadataParameters} {
		parts = append(parts, md.Get(name)...)
	}
	s.requests = append(s.requests, strings.Join(parts, " "))
}

const attributes = ` 7 run {"size":"groß"}`

type backupV1 struct {
	backupv1pb.UnimplementedBackupItemActionServer
	*said
}

func (s backupV1) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	s.note(ctx, "applies", in.GetPlugin())
	return &itempb.AppliesToResponse{Selector: selector}, nil
}

func (s backupV1) Execute(ctx context.Context, in *backupv1pb.ExecuteRequest) (*backupv1pb.ExecuteResponse, error) {
	s.note(ctx, "execute", in.GetPlugin(), string(in.GetItem()), string(in.GetBackup()))
	return &backupv1pb.ExecuteResponse{Item: []byte("changed"), AdditionalItems: []*itempb.ResourceIdentifier{reference}}, nil
}

type backupV2 struct {
	backupv2pb.UnimplementedBackupItemActionServer
	*said
}

func (s backupV2) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	s.note(ctx, "applies", in.GetPlugin())
	return &itempb.AppliesToResponse{Selector: selector}, nil
}

func (s backupV2) Execute(ctx context.Context, in *backupv2pb.ExecuteRequest) (*backupv2pb.ExecuteResponse, error) {
	s.note(ctx, "execute", in.GetPlugin(), string(in.GetItem()), string(in.GetBackup()))
	return &backupv2pb.ExecuteResponse{
		Item: []byte("changed"), AdditionalItems: []*itempb.ResourceIdentifier{reference}, OperationID: "op",
		PostOperationItems: []*itempb.ResourceIdentifier{reference, reference},
	}, nil
}

func (s backupV2) Progress(ctx context.Context, in *backupv2pb.ProgressRequest) (*backupv2pb.ProgressResponse, error) {
	s.note(ctx, "progress", in.GetPlugin(), in.GetOperationID(), string(in.GetBackup()))
	return &backupv2pb.ProgressResponse{Progress: progress}, nil
}

func (s backupV2) Cancel(ctx context.Context, in *backupv2pb.CancelRequest) (*emptypb.Empty, error) {
	s.note(ctx, "cancel", in.GetPlugin(), in.GetOperationID(), string(in.GetBackup()))
	return &emptypb.Empty{}, nil
}

func TestBackupItemAction_Versions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version      BackupItemAction
		want         BackupItemAnswer
		wantProgress error
		cancelled    bool
		wantSaid     []string
	}{
		"v1": {
			version: backupItemActionV1{}, want: BackupItemAnswer{Item: []byte("changed"), RelatedItems: wantRefs}, wantProgress: ErrOperationsUnsupported,
			wantSaid: []string{"applies x.io/a" + attributes, "execute x.io/a object backup" + attributes},
		},
		"v2": {
			version: backupItemActionV2{},
			want: BackupItemAnswer{
				Item: []byte("changed"), RelatedItems: wantRefs, OperationID: "op", PostOperationItems: append(wantRefs[:1:1], wantRefs...),
			},
			wantSaid: []string{
				"applies x.io/a" + attributes, "execute x.io/a object backup" + attributes,
				"progress x.io/a op backup" + attributes, "cancel x.io/a op backup" + attributes,
			},
		},
		"asynchronous": {
			version: asyncBackupItemActionV1{}, cancelled: true,
			want: BackupItemAnswer{
				Item: []byte("changed"), RelatedItems: wantRefs, OperationID: "op", PostOperationItems: append(wantRefs[:1:1], wantRefs...),
				PollInterval: time.Second,
			},
			wantSaid: []string{
				"applies x.io/a" + attributes, "start x.io/a object backup" + attributes,
				"progress x.io/a op backup" + attributes, "cancel x.io/a op backup" + attributes,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := &said{}
			conn := serve(t, func(s *grpc.Server) {
				proto.RegisterVelero(s, &backupv1pb.BackupItemAction_ServiceDesc, backupV1{said: said})
				proto.RegisterVelero(s, &backupv2pb.BackupItemAction_ServiceDesc, backupV2{said: said})
				asyncbackuppb.RegisterAsyncBackupItemActionServer(s, asyncBackup{said: said, interval: durationpb.New(time.Second)})
			})
			checkAppliesTo(t, conn, tc.version)
			got, err := tc.version.Execute(t.Context(), callOn(conn), []byte("object"), []byte("backup"))
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v, answer (-want +got):\n%s", err, diff)
			}
			checkOperations(t, conn, tc.version, "backup", tc.cancelled, tc.wantProgress)
			if diff := cmp.Diff(tc.wantSaid, said.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func checkAppliesTo(t *testing.T, conn *grpc.ClientConn, action SelectorProvider) {
	t.Helper()
	got, err := action.AppliesTo(t.Context(), callOn(conn))
	want := item.Selector{
		IncludedNamespaces: []string{"a"}, ExcludedNamespaces: []string{"b"}, IncludedResources: []string{"c"}, ExcludedResources: []string{"d"},
		LabelSelector: "e=f",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, selector (-want +got):\n%s", err, diff)
	}
}

func checkOperations(t *testing.T, conn *grpc.ClientConn, action Operations, subject string, cancelled bool, wantErr error) {
	t.Helper()
	op := OperationRef{OperationID: "op", Parent: []byte(subject)}
	got, err := action.Progress(t.Context(), callOn(conn), op)
	want := item.Progress{
		Completed: true, Err: "e", NCompleted: 1, NTotal: 2, OperationUnits: "bytes", Description: "d", Started: started, Cancelled: cancelled,
		DataCaptured: true,
	}
	if wantErr != nil {
		want = item.Progress{}
	}
	if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, wantErr) {
		t.Errorf("error %v, progress (-want +got):\n%s", err, diff)
	}
	if err := action.Cancel(t.Context(), callOn(conn), op); err != nil {
		t.Errorf("Cancel: %v", err)
	}
}

type restoreV1 struct {
	restorev1pb.UnimplementedRestoreItemActionServer
	*said
}

func (s restoreV1) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	s.note(ctx, "applies", in.GetPlugin())
	return &itempb.AppliesToResponse{Selector: selector}, nil
}

func (s restoreV1) Execute(ctx context.Context, in *restorev1pb.ExecuteRequest) (*restorev1pb.ExecuteResponse, error) {
	s.note(ctx, "execute", in.GetPlugin(), string(in.GetItem()), string(in.GetItemFromBackup()), string(in.GetRestore()))
	return &restorev1pb.ExecuteResponse{Item: []byte("changed"), AdditionalItems: []*itempb.ResourceIdentifier{reference}, SkipRestore: true}, nil
}

type restoreV2 struct {
	restorev2pb.UnimplementedRestoreItemActionServer
	*said
	timeout *durationpb.Duration
}

func (s restoreV2) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	s.note(ctx, "applies", in.GetPlugin())
	return &itempb.AppliesToResponse{Selector: selector}, nil
}

func (s restoreV2) Execute(ctx context.Context, in *restorev2pb.ExecuteRequest) (*restorev2pb.ExecuteResponse, error) {
	s.note(ctx, "execute", in.GetPlugin(), string(in.GetItem()), string(in.GetItemFromBackup()), string(in.GetRestore()))
	return &restorev2pb.ExecuteResponse{
		Item: []byte("changed"), AdditionalItems: []*itempb.ResourceIdentifier{reference}, OperationID: "op",
		WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: s.timeout,
	}, nil
}

func (s restoreV2) Progress(ctx context.Context, in *restorev2pb.ProgressRequest) (*restorev2pb.ProgressResponse, error) {
	s.note(ctx, "progress", in.GetPlugin(), in.GetOperationID(), string(in.GetRestore()))
	return &restorev2pb.ProgressResponse{Progress: progress}, nil
}

func (s restoreV2) Cancel(ctx context.Context, in *restorev2pb.CancelRequest) (*emptypb.Empty, error) {
	s.note(ctx, "cancel", in.GetPlugin(), in.GetOperationID(), string(in.GetRestore()))
	return &emptypb.Empty{}, nil
}

func (s restoreV2) AreAdditionalItemsReady(
	ctx context.Context, in *restorev2pb.AreAdditionalItemsReadyRequest,
) (*restorev2pb.AreAdditionalItemsReadyResponse, error) {
	s.note(ctx, "ready", in.GetPlugin(), string(in.GetRestore()), in.GetAdditionalItems()[0].GetName())
	return &restorev2pb.AreAdditionalItemsReadyResponse{}, nil
}

func TestRestoreItemAction_Versions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version      RestoreItemAction
		want         RestoreItemAnswer
		wantProgress error
		cancelled    bool
		wantReady    bool
		wantSaid     []string
	}{
		"v1": {
			version: restoreItemActionV1{}, want: RestoreItemAnswer{Item: []byte("changed"), Skip: true, RelatedItems: wantRefs},
			wantProgress: ErrOperationsUnsupported, wantReady: true,
			wantSaid: []string{"applies x.io/a" + attributes, "execute x.io/a object archived restore" + attributes},
		},
		"v2": {
			version: restoreItemActionV2{},
			want:    RestoreItemAnswer{Item: []byte("changed"), RelatedItems: wantRefs, WaitForRelatedItems: true, WaitTimeout: time.Minute, OperationID: "op"},
			wantSaid: []string{
				"applies x.io/a" + attributes, "execute x.io/a object archived restore" + attributes,
				"progress x.io/a op restore" + attributes, "cancel x.io/a op restore" + attributes, "ready x.io/a restore web" + attributes,
			},
		},
		"asynchronous": {
			version: asyncRestoreItemActionV1{}, cancelled: true,
			want: RestoreItemAnswer{
				Item: []byte("changed"), RelatedItems: wantRefs, WaitForRelatedItems: true, WaitTimeout: time.Minute, OperationID: "op", PollInterval: time.Second,
			},
			wantSaid: []string{
				"applies x.io/a" + attributes, "start x.io/a object archived restore" + attributes,
				"progress x.io/a op restore" + attributes, "cancel x.io/a op restore" + attributes, "ready x.io/a restore web" + attributes,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := &said{}
			conn := serve(t, func(s *grpc.Server) {
				proto.RegisterVelero(s, &restorev1pb.RestoreItemAction_ServiceDesc, restoreV1{said: said})
				proto.RegisterVelero(s, &restorev2pb.RestoreItemAction_ServiceDesc, restoreV2{said: said, timeout: durationpb.New(time.Minute)})
				asyncrestorepb.RegisterAsyncRestoreItemActionServer(s, asyncRestore{
					said: said, interval: durationpb.New(time.Second), timeout: durationpb.New(time.Minute),
				})
			})
			checkAppliesTo(t, conn, tc.version)
			got, err := tc.version.Execute(t.Context(), callOn(conn), object())
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v, answer (-want +got):\n%s", err, diff)
			}
			checkOperations(t, conn, tc.version, "restore", tc.cancelled, tc.wantProgress)
			ready, err := tc.version.AreAdditionalItemsReady(t.Context(), callOn(conn), wantRefs, []byte("restore"))
			if ready != tc.wantReady || err != nil {
				t.Errorf("ready is %v, want %v; error %v", ready, tc.wantReady, err)
			}
			if diff := cmp.Diff(tc.wantSaid, said.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func object() RestoreItem {
	return RestoreItem{Object: []byte("object"), Archived: []byte("archived"), Restore: []byte("restore")}
}

func TestRestoreItemActionV2_Timeout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   *durationpb.Duration
		want time.Duration
		bad  bool
	}{
		"none":     {},
		"zero":     {in: durationpb.New(0)},
		"a minute": {in: durationpb.New(time.Minute), want: time.Minute},
		"negative": {in: durationpb.New(-1), bad: true},
		"broken":   {in: &durationpb.Duration{Seconds: 1, Nanos: -1}, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := serve(t, func(s *grpc.Server) {
				proto.RegisterVelero(s, &restorev2pb.RestoreItemAction_ServiceDesc, restoreV2{said: &said{}, timeout: tc.in})
			})
			got, err := restoreItemActionV2{}.Execute(t.Context(), callOn(conn), object())
			if bad := errors.As(err, new(*ContractError)); bad != tc.bad || got.WaitTimeout != tc.want {
				t.Errorf("timeout is %s, error %v", got.WaitTimeout, err)
			}
		})
	}
}

type deleteV1 struct {
	deletepb.UnimplementedDeleteItemActionServer
	*said
}

func (s deleteV1) AppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	s.note(ctx, "applies", in.GetPlugin())
	return &itempb.AppliesToResponse{Selector: selector}, nil
}

func (s deleteV1) Execute(ctx context.Context, in *deletepb.ExecuteRequest) (*emptypb.Empty, error) {
	s.note(ctx, "execute", in.GetPlugin(), string(in.GetItem()), string(in.GetBackup()))
	return &emptypb.Empty{}, nil
}

func TestDeleteItemAction(t *testing.T) {
	t.Parallel()
	said := &said{}
	conn := serve(t, func(s *grpc.Server) {
		proto.RegisterVelero(s, &deletepb.DeleteItemAction_ServiceDesc, deleteV1{said: said})
	})
	checkAppliesTo(t, conn, deleteItemActionV1{})
	if err := (deleteItemActionV1{}).Execute(t.Context(), callOn(conn), []byte("object"), []byte("backup")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"applies x.io/a" + attributes, "execute x.io/a object backup" + attributes}, said.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
