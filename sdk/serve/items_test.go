// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	gproto "google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	deleteitemv1 "github.com/grapnel-dev/grapnel/sdk/deleteitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	backupitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v2"
	deleteitempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	restoreitemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v1"
	restoreitemv2pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v2"
	restoreitemv1 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v1"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
)

// second implements every second version of an action: its responses contain its arguments.
type second struct{ backupItem }

func (second) Execute(_ context.Context, req *item.BackupRequest) (*backupitemv2.Response, error) {
	return &backupitemv2.Response{
		BackupResponse: item.BackupResponse{Item: req.Item, AdditionalItems: []item.Ref{{Group: "g", Resource: "r", Namespace: "ns", Name: "n"}}},
		OperationID:    "op of " + req.Backup.Name, PostOperationItems: []item.Ref{{Resource: "r2", Name: "n2"}},
	}, nil
}

func (second) Progress(_ context.Context, req *backupitemv2.OperationRequest) (*item.Progress, error) {
	if req.OperationID == "unknown" {
		return nil, nil
	}
	return &item.Progress{
		Completed: true, Err: "e", NCompleted: 1, NTotal: 2, OperationUnits: "u",
		Description: req.OperationID + " of " + req.Backup.Name, Started: time.Unix(5, 6),
	}, nil
}

func (second) Cancel(_ context.Context, req *backupitemv2.OperationRequest) error {
	return errors.New("cannot cancel " + req.OperationID + " of " + req.Backup.Name)
}

func TestBackupItemActionV2(t *testing.T) {
	t.Parallel()
	conn, _ := connect(t, New().RegisterBackupItemActionV2(testName, func() (backupitemv2.BackupItemAction, error) { return second{}, nil }))
	client := backupitemv2pb.NewBackupItemActionClient(proto.VeleroConn(conn))
	resp, err := client.Execute(t.Context(), &backupitemv2pb.ExecuteRequest{Plugin: testName, Item: []byte(testItem), Backup: []byte(testBackup)})
	if err != nil {
		t.Fatal(err)
	}
	want := &backupitemv2pb.ExecuteResponse{
		Item: resp.GetItem(), AdditionalItems: []*itempb.ResourceIdentifier{{Group: "g", Resource: "r", Namespace: "ns", Name: "n"}},
		OperationID: "op of nightly", PostOperationItems: []*itempb.ResourceIdentifier{{Resource: "r2", Name: "n2"}},
	}
	if !gproto.Equal(resp, want) {
		t.Errorf("the response is %v, want %v", resp, want)
	}
	progress, err := client.Progress(t.Context(), &backupitemv2pb.ProgressRequest{Plugin: testName, OperationID: "op", Backup: []byte(testBackup)})
	if err != nil {
		t.Fatal(err)
	}
	if p := progress.GetProgress(); !p.GetCompleted() || p.GetErr() != "e" || p.GetNTotal() != 2 || p.GetDescription() != "op of nightly" ||
		p.GetStarted().GetNanos() != 6 || p.GetUpdated() != nil {
		t.Errorf("the progress is %v", p)
	}
	if _, err := client.Progress(t.Context(), &backupitemv2pb.ProgressRequest{Plugin: testName, OperationID: "unknown", Backup: []byte(testBackup)}); err == nil ||
		!strings.Contains(err.Error(), "no progress and no error") {
		t.Errorf("error without a progress is %v", err)
	}
	if _, err := client.Cancel(t.Context(), &backupitemv2pb.CancelRequest{Plugin: testName, OperationID: "op", Backup: []byte(testBackup)}); err == nil ||
		!strings.Contains(err.Error(), "cannot cancel op of nightly") {
		t.Errorf("error of Cancel is %v", err)
	}
}

// restoring is a RestoreItemAction of both versions.
type restoring struct {
	backupItem
	resp *restoreitemv2.Response
	seen *item.RestoreRequest
}

func (r *restoring) Execute(_ context.Context, req *item.RestoreRequest) (*restoreitemv2.Response, error) {
	r.seen = req
	return r.resp, nil
}

func (*restoring) Progress(_ context.Context, req *restoreitemv2.OperationRequest) (*item.Progress, error) {
	return &item.Progress{Description: req.OperationID + " of " + req.Restore.Name}, nil
}

func (*restoring) Cancel(_ context.Context, req *restoreitemv2.OperationRequest) error {
	return errors.New("cannot cancel " + req.OperationID + " of " + req.Restore.Name)
}

func (*restoring) AreAdditionalItemsReady(_ context.Context, req *restoreitemv2.ReadyRequest) (bool, error) {
	return req.Restore.Name == "again" && req.AdditionalItems[0] == item.Ref{Resource: "r", Name: "n"}, nil
}

// restoringV1 is restoring as version 1.
type restoringV1 struct{ *restoring }

func (r restoringV1) Execute(ctx context.Context, req *item.RestoreRequest) (*item.RestoreResponse, error) {
	resp, err := r.restoring.Execute(ctx, req)
	if resp == nil {
		return nil, err
	}
	return &resp.RestoreResponse, err
}

func TestRestoreItemActionV2(t *testing.T) {
	t.Parallel()
	action := &restoring{resp: &restoreitemv2.Response{
		RestoreResponse: item.RestoreResponse{SkipRestore: true, AdditionalItems: []item.Ref{{Resource: "r", Name: "n"}}},
		OperationID:     "op", WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: time.Minute,
	}}
	conn, _ := connect(t, New().RegisterRestoreItemActionV2(testName, func() (restoreitemv2.RestoreItemAction, error) { return action, nil }))
	client := restoreitemv2pb.NewRestoreItemActionClient(proto.VeleroConn(conn))
	request := &restoreitemv2pb.ExecuteRequest{Plugin: testName, Item: []byte(testItem), ItemFromBackup: []byte(`{"kind":"Pod"}`), Restore: []byte(testRestore)}
	resp, err := client.Execute(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if string(resp.GetItem()) != testItem || !resp.GetSkipRestore() || resp.GetOperationID() != "op" || !resp.GetWaitForAdditionalItems() ||
		resp.GetAdditionalItemsReadyTimeout().AsDuration() != time.Minute || len(resp.GetAdditionalItems()) != 1 {
		t.Errorf("the response is %v", resp)
	}
	if seen := action.seen; seen.ItemFromBackup.GetKind() != "Pod" || seen.Item.GetName() != "web" || seen.Restore.BackupName != "nightly" {
		t.Errorf("it got %+v", seen)
	}
	ready, err := client.AreAdditionalItemsReady(t.Context(), &restoreitemv2pb.AreAdditionalItemsReadyRequest{
		Plugin: testName, Restore: []byte(testRestore), AdditionalItems: resp.GetAdditionalItems(),
	})
	if err != nil || !ready.GetReady() {
		t.Errorf("ready is %v, %v", ready, err)
	}
	progress, err := client.Progress(t.Context(), &restoreitemv2pb.ProgressRequest{Plugin: testName, OperationID: "op", Restore: []byte(testRestore)})
	if err != nil || progress.GetProgress().GetDescription() != "op of again" {
		t.Errorf("the progress is %v, %v", progress, err)
	}
	if _, err := client.Cancel(t.Context(), &restoreitemv2pb.CancelRequest{Plugin: testName, OperationID: "op", Restore: []byte(testRestore)}); err == nil ||
		!strings.Contains(err.Error(), "cannot cancel op of again") {
		t.Errorf("error of Cancel is %v", err)
	}
	action.resp.AdditionalItemsReadyTimeout = -time.Second
	if _, err := client.Execute(t.Context(), request); err == nil || !strings.Contains(err.Error(), "is negative") {
		t.Errorf("error of a negative time is %v", err)
	}
}

func TestRestoreItemActionV1(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		resp *restoreitemv2.Response
		want *restoreitemv1pb.ExecuteResponse
	}{
		"nothing": {want: &restoreitemv1pb.ExecuteResponse{Item: []byte(testItem)}},
		"skip": {
			resp: &restoreitemv2.Response{RestoreResponse: item.RestoreResponse{SkipRestore: true}},
			// Velero reads the object even in this case.
			want: &restoreitemv1pb.ExecuteResponse{Item: []byte(testItem), SkipRestore: true},
		},
		"labels for the Backup": {
			resp: &restoreitemv2.Response{RestoreResponse: item.RestoreResponse{
				Item: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}, BackupLabels: map[string]string{"a": "b"},
			}},
			want: &restoreitemv1pb.ExecuteResponse{Item: []byte(`{"metadata":{"annotations":{"grapnel.dev/backup-labels":"{\"a\":\"b\"}"}}}`)},
		},
		"changed": {
			resp: &restoreitemv2.Response{RestoreResponse: item.RestoreResponse{Item: &unstructured.Unstructured{Object: map[string]any{"kind": "X"}}}},
			want: &restoreitemv1pb.ExecuteResponse{Item: []byte(`{"kind":"X"}`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, _ := connect(t, New().RegisterRestoreItemActionV1(testName, func() (restoreitemv1.RestoreItemAction, error) {
				return restoringV1{&restoring{resp: tc.resp}}, nil
			}))
			got, err := restoreitemv1pb.NewRestoreItemActionClient(proto.VeleroConn(conn)).Execute(t.Context(),
				&restoreitemv1pb.ExecuteRequest{Plugin: testName, Item: []byte(testItem), ItemFromBackup: []byte(testItem), Restore: []byte(testRestore)})
			if err != nil {
				t.Fatal(err)
			}
			if !gproto.Equal(got, tc.want) {
				t.Errorf("the response is %v, want %v", got, tc.want)
			}
		})
	}
}

// deleting is a DeleteItemAction.
type deleting struct{ backupItem }

func (deleting) Execute(_ context.Context, req *item.DeleteRequest) error {
	return errors.New("cannot delete the snapshot of " + req.Item.GetName() + " in " + req.Backup.Name)
}

func TestDeleteItemAction(t *testing.T) {
	t.Parallel()
	conn, _ := connect(t, New().RegisterDeleteItemActionV1(testName, func() (deleteitemv1.DeleteItemAction, error) { return deleting{}, nil }))
	_, err := deleteitempb.NewDeleteItemActionClient(proto.VeleroConn(conn)).Execute(t.Context(),
		&deleteitempb.ExecuteRequest{Plugin: testName, Item: []byte(testItem), Backup: []byte(testBackup)})
	if status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), "cannot delete the snapshot of web in nightly") {
		t.Errorf("error is %v", err)
	}
}
