// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	deletepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteaction/v1"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
)

// deletion is a DeleteAction.
type deletion struct {
	selector string
	execute  func(ctx context.Context, req *deletev1.DeleteRequest) error
}

func (d *deletion) AppliesTo(ctx context.Context) (deletev1.Selector, error) {
	sdk.Logger(ctx).Info("Asked", "size", sdk.Parameters(ctx)["size"])
	switch d.selector {
	case "error":
		return deletev1.Selector{}, errors.New("the registry is down")
	case "panic":
		panic("nil selector")
	}
	return deletev1.Selector{LabelSelector: d.selector}, nil
}

func (d *deletion) Execute(ctx context.Context, req *deletev1.DeleteRequest) error {
	return d.execute(ctx, req)
}

func connectDeletion(t *testing.T, action *deletion) (deletepb.DeleteActionClient, *logBuffer) {
	t.Helper()
	conn, log := connect(t, New().RegisterDeleteActionV1(testName, func() (deletev1.DeleteAction, error) { return action, nil }))
	return deletepb.NewDeleteActionClient(conn), log
}

func TestDeleteAction_AppliesTo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selector, plugin string
		want             codes.Code
		wantText         string
	}{
		"every Backup":      {},
		"some":              {selector: "app=shop,tier!=cache"},
		"invalid selector":  {selector: "a=b=c", want: codes.Unknown, wantText: "the action returned an invalid selector of Backups: the label selector cannot be read"},
		"too long":          {selector: strings.Repeat("x", 1025), want: codes.Unknown, wantText: "1025 bytes, at most 1024"},
		"an error":          {selector: "error", want: codes.Unknown, wantText: "the registry is down"},
		"a panic":           {selector: "panic", want: codes.Aborted, wantText: proto.PanicPrefix + "nil selector"},
		"an unknown action": {plugin: "example.io/other", want: codes.Unimplemented, wantText: `does not provide DeleteAction v1 "example.io/other"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := connectDeletion(t, &deletion{selector: tc.selector})
			if tc.plugin == "" {
				tc.plugin = testName
			}
			got, err := client.AppliesTo(t.Context(), &deletepb.AppliesToRequest{Plugin: tc.plugin})
			if status.Code(err) != tc.want || err != nil && !strings.Contains(err.Error(), tc.wantText) {
				t.Errorf("error is %v, want %s with %q", err, tc.want, tc.wantText)
			}
			if err == nil && got.GetSelector() != tc.selector {
				t.Errorf("the selector is %q", got.GetSelector())
			}
		})
	}
}

func TestDeleteAction_Request(t *testing.T) {
	t.Parallel()
	var got *deletev1.DeleteRequest
	var parameters map[string]string
	client, log := connectDeletion(t, &deletion{execute: func(ctx context.Context, req *deletev1.DeleteRequest) error {
		sdk.Logger(ctx).Info("Removing")
		got, parameters = req, sdk.Parameters(ctx)
		return nil
	}})
	const backup = `{"kind":"Backup","metadata":{"name":"n","namespace":"ns","uid":"u","labels":{"l":"1"},"annotations":{"a":"2"}}}`
	_, err := client.Execute(t.Context(), &deletepb.ExecuteRequest{
		Plugin: testName, IdempotencyKey: "key", Attempt: 2, Backup: []byte(backup), Parameters: map[string]string{"size": "groß"},
		BackupOutputs: map[string]*hookpb.Outputs{"x.io/a": {Values: map[string]string{"id": "snap-1"}}}, CallId: "7",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &deletev1.DeleteRequest{
		Action: testName, IdempotencyKey: "key", Attempt: 2, Parameters: map[string]string{"size": "groß"},
		Backup: hook.Backup{
			Name: "n", Namespace: "ns", UID: "u", Raw: []byte(backup),
			Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"},
		},
		BackupOutputs: map[string]map[string]string{"x.io/a": {"id": "snap-1"}},
	}
	if !reflect.DeepEqual(got, want) || parameters["size"] != "groß" {
		t.Errorf("got %+v and the parameters %v, want %+v", got, parameters, want)
	}
	if _, err := client.Execute(t.Context(), &deletepb.ExecuteRequest{Plugin: testName, IdempotencyKey: "key", Backup: []byte(backup)}); err != nil {
		t.Fatal(err)
	}
	if got.Parameters == nil || got.BackupOutputs == nil || parameters == nil {
		t.Errorf("a minimal request has nil maps: %+v", got)
	}
	if _, err := client.AppliesTo(t.Context(), &deletepb.AppliesToRequest{
		Plugin: testName, IdempotencyKey: "key", CallId: "8", Parameters: map[string]string{"size": "klein"},
	}); err != nil {
		t.Fatal(err)
	}
	wantLog := []map[string]string{
		{"@message": "Removing", proto.FieldKey: "key", proto.FieldCall: "7"},
		{proto.FieldEnd: "7"},
		{"@message": "Removing", proto.FieldKey: "key"},
		{"@message": "Asked", proto.FieldKey: "key", proto.FieldCall: "8", "size": "klein"},
		{proto.FieldEnd: "8"},
	}
	lines := log.lines(t)
	if len(lines) != len(wantLog) {
		t.Fatalf("the log is %v", lines)
	}
	for i, fields := range wantLog {
		for field, value := range fields {
			if lines[i][field] != value {
				t.Errorf("line %d of the log is %v, want %s=%s", i, lines[i], field, value)
			}
		}
	}
}

func TestDeleteAction_RejectedCalls(t *testing.T) {
	t.Parallel()
	client, _ := connectDeletion(t, &deletion{execute: func(context.Context, *deletev1.DeleteRequest) error {
		t.Error("the action was called")
		return nil
	}})
	for name, tc := range map[string]struct {
		in   *deletepb.ExecuteRequest
		want codes.Code
		text string
	}{
		"no key":       {in: &deletepb.ExecuteRequest{Plugin: testName, Backup: []byte(testBackup)}, want: codes.InvalidArgument, text: "no idempotency key"},
		"no backup":    {in: &deletepb.ExecuteRequest{Plugin: testName, IdempotencyKey: "k"}, want: codes.InvalidArgument, text: "parsing the Backup object"},
		"not a backup": {in: &deletepb.ExecuteRequest{Plugin: testName, IdempotencyKey: "k", Backup: []byte("x")}, want: codes.InvalidArgument, text: "parsing the Backup object"},
		"unknown":      {in: &deletepb.ExecuteRequest{Plugin: "example.io/other", IdempotencyKey: "k", Backup: []byte(testBackup)}, want: codes.Unimplemented, text: "does not provide"},
	} {
		if _, err := client.Execute(t.Context(), tc.in); status.Code(err) != tc.want || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: error is %v, want %s with %q", name, err, tc.want, tc.text)
		}
	}
}

func TestDeleteAction_Errors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		execute func(ctx context.Context, req *deletev1.DeleteRequest) error
		want    codes.Code
		text    string
	}{
		"an error": {execute: func(context.Context, *deletev1.DeleteRequest) error { return errors.New("bucket is locked") }, want: codes.Unknown, text: "bucket is locked"},
		"a status": {execute: func(context.Context, *deletev1.DeleteRequest) error { return status.Error(codes.Unavailable, "later") }, want: codes.Unknown, text: "later"},
		"a panic": {execute: func(_ context.Context, req *deletev1.DeleteRequest) error {
			_ = req.Action[len(req.Action)]
			return nil
		}, want: codes.Aborted, text: proto.PanicPrefix + "runtime error"},
		"a long error": {execute: func(context.Context, *deletev1.DeleteRequest) error { return errors.New(strings.Repeat("€", 1<<20)) }, want: codes.Unknown, text: "€…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := connectDeletion(t, &deletion{execute: tc.execute})
			_, err := client.Execute(t.Context(), &deletepb.ExecuteRequest{Plugin: testName, IdempotencyKey: "k", Backup: []byte(testBackup)})
			if status.Code(err) != tc.want || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error is %v, want %s with %q", err, tc.want, tc.text)
			}
		})
	}
}

// TestDeleteAction_SameKey checks that calls with one key are serialized and calls with other
// keys do not wait.
func TestDeleteAction_SameKey(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan string, 4), make(chan struct{})
	client, _ := connectDeletion(t, &deletion{execute: func(_ context.Context, req *deletev1.DeleteRequest) error {
		entered <- req.IdempotencyKey
		<-leave
		return nil
	}})
	results := make(chan error, 3)
	call := func(ctx context.Context, key string) {
		_, err := client.Execute(ctx, &deletepb.ExecuteRequest{Plugin: testName, IdempotencyKey: key, Backup: []byte(testBackup)})
		results <- err
	}
	go call(t.Context(), "a")
	<-entered
	go call(t.Context(), "b")
	if key := <-entered; key != "b" {
		t.Errorf("%s runs, want b", key)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	call(impatient, "a")
	if err := <-results; status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error of a call that is canceled while another one runs: %v", err)
	}
	select {
	case key := <-entered:
		t.Errorf("a second call of %s runs concurrently with the first", key)
	default:
	}
	close(leave)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}
