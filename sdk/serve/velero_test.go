// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	deleteitemv1 "github.com/grapnel-dev/grapnel/sdk/deleteitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	backupitemv1pb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/backupitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
	veleropb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/velero/v1"
	restoreitemv1 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v1"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
)

const (
	testName    = "example.io/test"
	testItem    = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"a":3,"f":0.5}}`
	testBackup  = `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"nightly"},"spec":{"x":1}}`
	testRestore = `{"apiVersion":"velero.io/v1","kind":"Restore","metadata":{"name":"again"},"spec":{"backupName":"nightly"}}`
)

// backupItem is a BackupItemAction for tests.
type backupItem func(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error)

func (backupItem) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedNamespaces: []string{"a"}, ExcludedNamespaces: []string{"b"}, IncludedResources: []string{"c"}, ExcludedResources: []string{"d"}, LabelSelector: "e=f"}, nil
}

func (f backupItem) Execute(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
	return f(ctx, req)
}

// callBackupItem serves f and calls it for one object.
func callBackupItem(t *testing.T, ctx context.Context, f backupItem) (*backupitemv1pb.ExecuteResponse, *logBuffer, error) { //nolint:revive // the test comes first
	t.Helper()
	conn, log := connect(t, New().RegisterBackupItemActionV1(testName, func() (backupitemv1.BackupItemAction, error) { return f, nil }))
	resp, err := backupitemv1pb.NewBackupItemActionClient(proto.VeleroConn(conn)).Execute(ctx,
		&backupitemv1pb.ExecuteRequest{Plugin: testName, Item: []byte(testItem), Backup: []byte(testBackup)})
	return resp, log, err
}

func TestBackupItemAction_Request(t *testing.T) {
	t.Parallel()
	var got *item.BackupRequest
	var parameters map[string]string
	_, log, err := callBackupItem(t, asOperator(t.Context(), "call-7", "run-1", `{"registry":"ü"}`), func(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
		got, parameters = req, sdk.Parameters(ctx)
		sdk.Logger(ctx).Info("Looking")
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if spec := got.Item.Object["spec"]; !reflect.DeepEqual(spec, map[string]any{"a": int64(3), "f": 0.5}) {
		t.Errorf("the spec is %#v, want integers as integers", spec)
	}
	if got.Backup.Name != "nightly" || string(got.Backup.Raw) != testBackup {
		t.Errorf("the Backup is %+v", got.Backup)
	}
	if parameters["registry"] != "ü" {
		t.Errorf("parameters are %v", parameters)
	}
	lines := log.lines(t)
	if len(lines) != 2 || lines[0]["@message"] != "Looking" || lines[0][proto.FieldKey] != "run-1" || lines[0][proto.FieldCall] != "call-7" {
		t.Errorf("the log is %v, want one line of the call and its end", lines)
	}
	if last := lines[len(lines)-1]; last[proto.FieldEnd] != "call-7" {
		t.Errorf("the last line is %v, want the end of the call", last)
	}
}

func TestBackupItemAction_NoMetadata(t *testing.T) {
	t.Parallel()
	_, log, err := callBackupItem(t, t.Context(), func(ctx context.Context, _ *item.BackupRequest) (*item.BackupResponse, error) {
		sdk.Parameters(ctx)["written"] = "x" // Must not be a nil map: nil means outside of calls.
		sdk.Logger(ctx).Info("Looking")
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := log.lines(t)
	if len(lines) != 1 || lines[0]["@message"] != "Looking" {
		t.Fatalf("the log is %v, want the line alone", lines)
	}
	if _, ok := lines[0][proto.FieldCall]; ok {
		t.Errorf("the line %v names a call without an ID", lines[0])
	}
}

func TestBackupItemAction_Response(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"team": "a"}
	for name, tc := range map[string]struct {
		answer   func(req *item.BackupRequest) *item.BackupResponse
		want     string
		wantErr  string
		wantRefs int
	}{
		"nil is unchanged": {answer: func(req *item.BackupRequest) *item.BackupResponse {
			req.Item.SetName("changed, but not returned")
			return nil
		}, want: testItem},
		"no item is unchanged": {answer: func(*item.BackupRequest) *item.BackupResponse {
			return &item.BackupResponse{AdditionalItems: []item.Ref{{Resource: "secrets", Namespace: "shop", Name: "s"}}}
		}, want: testItem, wantRefs: 1},
		"changed": {answer: func(req *item.BackupRequest) *item.BackupResponse {
			unstructured.RemoveNestedField(req.Item.Object, "spec", "a")
			return &item.BackupResponse{Item: req.Item}
		}, want: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"f":0.5}}`},
		"only labels": {answer: func(*item.BackupRequest) *item.BackupResponse {
			return &item.BackupResponse{BackupLabels: labels}
		}, want: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","annotations":{"grapnel.dev/backup-labels":"{\"team\":\"a\"}"}},"spec":{"a":3,"f":0.5}}`},
		"labels beside annotations": {answer: func(req *item.BackupRequest) *item.BackupResponse {
			req.Item.SetAnnotations(map[string]string{"x": "y"})
			return &item.BackupResponse{Item: req.Item, BackupLabels: labels}
		}, want: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","annotations":{"x":"y","grapnel.dev/backup-labels":"{\"team\":\"a\"}"}},"spec":{"a":3,"f":0.5}}`},
		"an empty object": {answer: func(*item.BackupRequest) *item.BackupResponse {
			return &item.BackupResponse{Item: &unstructured.Unstructured{}}
		}, wantErr: "without content"},
		"no JSON": {answer: func(req *item.BackupRequest) *item.BackupResponse {
			req.Item.Object["spec"] = func() {}
			return &item.BackupResponse{Item: req.Item}
		}, wantErr: "cannot be written as JSON"},
		"too large": {answer: func(req *item.BackupRequest) *item.BackupResponse {
			req.Item.Object["spec"] = strings.Repeat("x", item.MaxBytes)
			return &item.BackupResponse{Item: req.Item}
		}, wantErr: "at most 4194304 are allowed"},
		"too many items": {answer: func(*item.BackupRequest) *item.BackupResponse {
			return &item.BackupResponse{AdditionalItems: make([]item.Ref, item.MaxRefs+1)}
		}, wantErr: "10001 additional items, at most 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, _, err := callBackupItem(t, t.Context(), func(_ context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
				return tc.answer(req), nil
			})
			if tc.wantErr != "" {
				if status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, want := decoded(t, resp.GetItem()), decoded(t, []byte(tc.want)); !reflect.DeepEqual(got, want) {
				t.Errorf("the item is %s, want %s", resp.GetItem(), tc.want)
			}
			if len(resp.GetAdditionalItems()) != tc.wantRefs {
				t.Errorf("additional items are %v", resp.GetAdditionalItems())
			}
		})
	}
}

func TestBackupItemAction_SharedObject(t *testing.T) {
	t.Parallel()
	// An action may return the same object for many calls.
	shared := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}}
	before := shared.DeepCopy()
	if _, _, err := callBackupItem(t, t.Context(), func(context.Context, *item.BackupRequest) (*item.BackupResponse, error) {
		return &item.BackupResponse{Item: shared, BackupLabels: map[string]string{"team": "a"}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(shared, before) {
		t.Errorf("the object was changed to %v", shared)
	}
}

func decoded(t *testing.T, raw []byte) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return object
}

func TestBackupItemAction_Errors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		act  backupItem
		want codes.Code
		text string
	}{
		"error": {act: func(context.Context, *item.BackupRequest) (*item.BackupResponse, error) {
			return nil, errors.New("no quota")
		}, want: codes.Unknown, text: "no quota"},
		"status of another server": {act: func(context.Context, *item.BackupRequest) (*item.BackupResponse, error) {
			return nil, status.Error(codes.Unavailable, "down")
		}, want: codes.Unknown, text: "down"},
		"an object store's error": {act: func(context.Context, *item.BackupRequest) (*item.BackupResponse, error) {
			return nil, objectstorev1.ErrNotExist
		}, want: codes.Unknown, text: "does not exist"},
		"nil pointer of an error type": {act: func(context.Context, *item.BackupRequest) (*item.BackupResponse, error) {
			var failed *testError
			return nil, failed
		}, want: codes.Aborted, text: "nil pointer dereference"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := callBackupItem(t, t.Context(), tc.act)
			if status.Code(err) != tc.want || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error is %v, want %s with %q", err, tc.want, tc.text)
			}
		})
	}
}

// testError is an error type of a plugin author.
type testError struct{ text string }

func (e *testError) Error() string { return e.text }

// panicking is the function that panics.
func panicking(_ context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
	parts := strings.Split(req.Backup.Name, "/")
	return nil, errors.New(parts[1])
}

func TestBackupItemAction_PanicOrigin(t *testing.T) {
	t.Parallel()
	_, log, err := callBackupItem(t, asOperator(t.Context(), "c", "k", "{}"), panicking)
	answer := status.Convert(err)
	if answer.Code() != codes.Aborted || !strings.HasPrefix(answer.Message(), "plugin panicked: runtime error: index out of range [1]") {
		t.Fatalf("error is %v", err)
	}
	details := answer.Proto().GetDetails()
	if len(details) != 1 || details[0].GetTypeUrl() != proto.StackType {
		t.Fatalf("details are %v, want one stack", details)
	}
	var stack veleropb.Stack
	if err := gproto.Unmarshal(details[0].GetValue(), &stack); err != nil {
		t.Fatal(err)
	}
	first := stack.GetFrames()[0]
	if !strings.HasSuffix(first.GetFunction(), "serve.panicking") || !strings.HasSuffix(first.GetFile(), "velero_test.go") || first.GetLine() == 0 {
		t.Errorf("the first frame is %v, want that of the panic", first)
	}
	if lines := log.lines(t); len(lines) != 2 || !strings.Contains(fmt.Sprint(lines[0]["stack"]), "serve.panicking") {
		t.Errorf("the log is %v, want the stack and the end of the call", lines)
	}
}

func TestBackupItemAction_Deadline(t *testing.T) {
	t.Parallel()
	entered, ended := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, _, err := callBackupItem(t, ctx, func(ctx context.Context, _ *item.BackupRequest) (*item.BackupResponse, error) {
		defer close(ended)
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if status.Code(err) != codes.Canceled {
		t.Errorf("error is %v, want Canceled", err)
	}
	<-ended

	short, cancelShort := context.WithTimeout(t.Context(), time.Minute)
	defer cancelShort()
	_, _, err = callBackupItem(t, short, func(ctx context.Context, _ *item.BackupRequest) (*item.BackupResponse, error) {
		if _, ok := ctx.Deadline(); !ok {
			return nil, errors.New("no deadline")
		}
		return nil, nil
	})
	if err != nil {
		t.Errorf("the deadline of the caller: %v", err)
	}
}

func TestBackupItemAction_ConcurrentCalls(t *testing.T) {
	t.Parallel()
	const calls = 4
	var created, entered sync.WaitGroup
	created.Add(1)
	entered.Add(calls)
	conn, _ := connect(t, New().RegisterBackupItemActionV1(testName, func() (backupitemv1.BackupItemAction, error) {
		created.Done() // This panics if the action is created again.
		return backupItem(func(context.Context, *item.BackupRequest) (*item.BackupResponse, error) {
			entered.Done()
			entered.Wait() // Wait until all calls have arrived.
			return nil, nil
		}), nil
	}))
	client := backupitemv1pb.NewBackupItemActionClient(proto.VeleroConn(conn))
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if _, err := client.Execute(t.Context(), &backupitemv1pb.ExecuteRequest{
				Plugin: testName, Item: []byte(testItem), Backup: []byte(testBackup),
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestBackupItemAction_RejectedCalls(t *testing.T) {
	t.Parallel()
	conn, log := connect(t, New().RegisterBackupItemActionV1(testName, func() (backupitemv1.BackupItemAction, error) {
		return backupItem(func(context.Context, *item.BackupRequest) (*item.BackupResponse, error) { return nil, nil }), nil
	}))
	client := backupitemv1pb.NewBackupItemActionClient(proto.VeleroConn(conn))
	for name, tc := range map[string]struct {
		parameters           string
		plugin, item, backup string
		want                 codes.Code
		text                 string
	}{
		"unknown name":   {plugin: "example.io/other", item: testItem, backup: testBackup, want: codes.Unimplemented, text: `does not provide BackupItemAction v1 "example.io/other"`},
		"no item":        {plugin: testName, backup: testBackup, want: codes.InvalidArgument, text: "reading the object"},
		"a null item":    {plugin: testName, item: "null", backup: testBackup, want: codes.InvalidArgument, text: "reading the object"},
		"no backup":      {plugin: testName, item: testItem, want: codes.InvalidArgument, text: "parsing the Backup"},
		"odd parameters": {parameters: "[]", plugin: testName, item: testItem, backup: testBackup, want: codes.InvalidArgument, text: "reading the parameters"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.Execute(asOperator(t.Context(), name, "k", tc.parameters), &backupitemv1pb.ExecuteRequest{
				Plugin: tc.plugin, Item: []byte(tc.item), Backup: []byte(tc.backup),
			})
			if status.Code(err) != tc.want || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error is %v, want %s with %q", err, tc.want, tc.text)
			}
			lines := log.lines(t)
			if last := lines[len(lines)-1]; last[proto.FieldEnd] != name {
				t.Errorf("the last line is %v, want the end of the call, for which a host waits", last)
			}
		})
	}
}

func TestBackupItemAction_AppliesTo(t *testing.T) {
	t.Parallel()
	conn, _ := connect(t, New().RegisterBackupItemActionV1(testName, func() (backupitemv1.BackupItemAction, error) { return backupItem(nil), nil }))
	got, err := backupitemv1pb.NewBackupItemActionClient(proto.VeleroConn(conn)).AppliesTo(t.Context(), &itempb.AppliesToRequest{Plugin: testName})
	if err != nil {
		t.Fatal(err)
	}
	want := &itempb.ResourceSelector{
		IncludedNamespaces: []string{"a"}, ExcludedNamespaces: []string{"b"}, IncludedResources: []string{"c"},
		ExcludedResources: []string{"d"}, Selector: "e=f",
	}
	if !gproto.Equal(got.GetSelector(), want) {
		t.Errorf("the selector is %v, want %v", got.GetSelector(), want)
	}
}

func TestListerService_ListPlugins(t *testing.T) {
	t.Parallel()
	newV1 := func() (backupitemv1.BackupItemAction, error) { return backupItem(nil), nil }
	newV2 := func() (backupitemv2.BackupItemAction, error) { return second{}, nil }
	newRestore := func() (restoreitemv1.RestoreItemAction, error) { return restoringV1{}, nil }
	conn, _ := connect(t, New().
		RegisterPreBackupActionV1("x.io/hook", newPre).
		RegisterBackupItemActionV1("x.io/old", newV1).
		RegisterBackupItemActionV1("x.io/both", newV1).RegisterBackupItemActionV2("x.io/both", newV2).
		RegisterBackupItemActionV1("plain", newV1).
		RegisterRestoreItemActionV1("x.io/both", newRestore).
		RegisterRestoreItemActionV2("x.io/new", func() (restoreitemv2.RestoreItemAction, error) { return &restoring{}, nil }).
		RegisterAsyncBackupItemActionV1("x.io/both", func() (asyncbackupitemv1.AsyncBackupItemAction, error) { return &asyncBackup{}, nil }).
		RegisterAsyncRestoreItemActionV1("x.io/both", func() (asyncrestoreitemv1.AsyncRestoreItemAction, error) { return &asyncRestore{}, nil }).
		RegisterDeleteActionV1("x.io/d", func() (deletev1.DeleteAction, error) { return &deletion{}, nil }).
		RegisterDeleteItemActionV1("x.io/d", func() (deleteitemv1.DeleteItemAction, error) { return deleting{}, nil }).
		RegisterObjectStoreV1("x.io/s", func() (objectstorev1.ObjectStore, error) { return nil, nil })) //nolint:nilnil // never called
	ours, err := pluginpb.NewPluginListerClient(conn).ListPlugins(t.Context(), &pluginpb.ListPluginsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, p := range ours.GetPlugins() {
		listed = append(listed, p.GetKind()+" "+p.GetVersion()+" "+p.GetName())
	}
	want := []string{
		"PreBackupAction v1 x.io/hook", "BackupItemAction v1 x.io/old", "BackupItemAction v1 x.io/both", "BackupItemAction v2 x.io/both",
		"BackupItemAction v1 plain", "RestoreItemAction v1 x.io/both", "RestoreItemAction v2 x.io/new",
		"AsyncBackupItemAction v1 x.io/both", "AsyncRestoreItemAction v1 x.io/both", "DeleteAction v1 x.io/d", "DeleteItemAction v1 x.io/d",
		"ObjectStore v1 x.io/s",
	}
	if !reflect.DeepEqual(listed, want) {
		t.Errorf("Grapnel sees %q, want %q", listed, want)
	}
	velero, err := veleropb.NewPluginListerClient(proto.VeleroConn(conn)).ListPlugins(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	listed = nil
	for _, p := range velero.GetPlugins() {
		if p.GetCommand() == "" {
			t.Errorf("%v has no command: Velero starts it", p)
		}
		listed = append(listed, p.GetKind()+" "+p.GetName())
	}
	want = []string{
		"BackupItemAction x.io/old", "BackupItemActionV2 x.io/both", "RestoreItemAction x.io/both", "RestoreItemActionV2 x.io/new",
		"DeleteItemAction x.io/d", "ObjectStore x.io/s",
	}
	if !reflect.DeepEqual(listed, want) {
		t.Errorf("Velero sees %q, want %q", listed, want)
	}
}
