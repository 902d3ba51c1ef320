// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk"
	deletepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteaction/v1"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
)

// deletion serves DeleteActions and records their requests.
type deletion struct {
	deletepb.UnimplementedDeleteActionServer
	selector string
	err      error
	asked    *deletepb.AppliesToRequest
	executed *deletepb.ExecuteRequest
}

func (d *deletion) AppliesTo(_ context.Context, in *deletepb.AppliesToRequest) (*deletepb.AppliesToResponse, error) {
	d.asked = in
	return &deletepb.AppliesToResponse{Selector: d.selector}, d.err
}

func (d *deletion) Execute(_ context.Context, in *deletepb.ExecuteRequest) (*deletepb.ExecuteResponse, error) {
	d.executed = in
	return &deletepb.ExecuteResponse{}, d.err
}

func serveDeletion(t *testing.T, d *deletion, options ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	return serve(t, func(s *grpc.Server) { deletepb.RegisterDeleteActionServer(s, d) }, options...)
}

// attempt is a call of Execute.
func attempt() executor.Call {
	return executor.Call{
		Point: "Delete", Action: "x.io/a", Key: "run", Attempt: 2, Subject: []byte("backup"),
		Parameters:    map[string]string{"size": "groß"},
		BackupOutputs: map[string]map[string]string{"x.io/b": {"id": "snap-1"}},
	}
}

func TestDeleteAction(t *testing.T) {
	t.Parallel()
	d := &deletion{selector: "app=shop,tier!=cache"}
	conn := serveDeletion(t, d)
	chosen := SelectVersions(SupportedKinds(), []ListedAction{{Kind: string(sdk.KindDeleteAction), Version: sdk.V1, Name: "x.io/a"}})
	version := chosen[ActionID{Kind: "DeleteAction", Name: "x.io/a"}]
	if version.Delete == nil || version.Hook == nil {
		t.Fatalf("callable by %+v", version)
	}
	selector, err := version.Delete.AppliesTo(t.Context(), callOn(conn))
	if err != nil || selector.String() != d.selector {
		t.Errorf("the selector is %v, error %v", selector, err)
	}
	wantAsked := &deletepb.AppliesToRequest{Plugin: "x.io/a", IdempotencyKey: "run", CallId: "7", Parameters: map[string]string{"size": "groß"}}
	if diff := cmp.Diff(wantAsked, d.asked, protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	want := &deletepb.ExecuteRequest{
		Plugin: "x.io/a", IdempotencyKey: "run", Attempt: 2, Backup: []byte("backup"), CallId: "7",
		Parameters:    map[string]string{"size": "groß"},
		BackupOutputs: map[string]*hookpb.Outputs{"x.io/b": {Values: map[string]string{"id": "snap-1"}}},
	}
	for name, execute := range map[string]func() error{
		"by itself": func() error { return version.Delete.Execute(t.Context(), conn, "7", attempt()) },
		"as executors do": func() error {
			answer, err := version.Hook(t.Context(), conn, "7", attempt())
			if diff := cmp.Diff(executor.Answer{}, answer); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			return err
		},
	} {
		d.executed = nil
		if err := execute(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, d.executed, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDeleteAction_AppliesTo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ selector, wantErr string }{
		"every Backup": {},
		"a label":      {selector: "app=shop"},
		"no selector":  {selector: "a=b=c", wantErr: "answered with an invalid selector: the label selector cannot be read"},
		"too long":     {selector: strings.Repeat("x", 1025), wantErr: "1025 bytes, at most 1024"},
		"huge":         {selector: strings.Repeat("x", 2<<20), wantErr: "answered with more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := deleteActionV1{}.AppliesTo(t.Context(), callOn(serveDeletion(t, &deletion{selector: tc.selector})))
			if tc.wantErr == "" {
				if err != nil || got.String() != tc.selector || got.Empty() != (tc.selector == "") {
					t.Errorf("the selector is %v, error %v", got, err)
				}
				return
			}
			if !errors.As(err, new(*ContractError)) || !strings.Contains(err.Error(), tc.wantErr) || got != nil {
				t.Errorf("the selector is %v, error %v, want a ContractError with %q", got, err, tc.wantErr)
			}
		})
	}
}

func TestDeleteAction_Errors(t *testing.T) {
	t.Parallel()
	conn := serveDeletion(t, &deletion{err: status.Error(codes.Unknown, "the bucket is locked")})
	_, asked := deleteActionV1{}.AppliesTo(t.Context(), callOn(conn))
	executed := deleteActionV1{}.Execute(t.Context(), conn, "7", attempt())
	for name, err := range map[string]error{"AppliesTo": asked, "Execute": executed} {
		if status.Code(err) != codes.Unknown || status.Convert(err).Message() != "the bucket is locked" {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	err := deleteActionV1{}.Execute(t.Context(), serveDeletion(t, &deletion{}, grpc.MaxRecvMsgSize(10)), "7", attempt())
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "more than the plugin accepts") {
		t.Errorf("error of a request that is too large is %v", err)
	}
}
