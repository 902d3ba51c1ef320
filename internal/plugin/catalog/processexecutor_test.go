// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/executor"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// fakeConnection fails with errs, one after the other, and then makes the calls.
type fakeConnection struct {
	errs  []error
	calls int
}

func (f *fakeConnection) Begin(context.Context, host.Call) (host.OpenCall, error) {
	f.calls++
	if f.calls <= len(f.errs) {
		return nil, f.errs[f.calls-1]
	}
	return plugintesting.Call{CallID: "1"}, nil
}

var call = executor.Call{Point: executor.PointPreBackup, Action: "a.io/b", Key: "k", Attempt: 1, Subject: []byte("{}")}

func newExecutor(conn *fakeConnection, resolveErr error) *processExecutor {
	hook := func(context.Context, grpc.ClientConnInterface, string, executor.Call) (executor.Answer, error) {
		return executor.Answer{Message: "done with\npassword=hunter2"}, nil
	}
	return newProcessExecutor(pluginclient.ActionID{Kind: "PreBackupAction", Name: "a.io/b"},
		func() (pluginclient.Connection, pluginclient.Hook, error) { return conn, hook, resolveErr }, redact.New())
}

func TestProcessExecutor_ErrorKinds(t *testing.T) {
	t.Parallel()
	const tag = "PreBackupAction(a.io/b): "
	closed := &host.StartError{Reason: host.ReasonUnloaded, Message: "the plugin was unloaded", Err: host.ErrUnloaded}
	for name, tc := range map[string]struct {
		err, resolveErr error
		want            executor.ErrorKind
		text            string
	}{
		"cannot start":      {err: &host.StartError{Reason: host.ReasonExitedAtOnce, Message: "it ended, token=abc"}, want: executor.Unreachable, text: "it ended, token=[REDACTED]"},
		"wrong spec":        {err: &host.StartError{Reason: host.ReasonInvalidSpec, Message: "wrong"}, want: executor.Invalid, text: "wrong"},
		"lost":              {err: &host.LostError{Message: "gone"}, want: executor.Unreachable, text: "gone"},
		"closed for good":   {err: closed, want: executor.Unreachable, text: "the plugin was unloaded"},
		"not loaded":        {resolveErr: errors.New("not loaded"), want: executor.Unreachable, text: "not loaded"},
		"no such action":    {resolveErr: fmt.Errorf("x: %w", pluginclient.ErrNoSuchAction), want: executor.Invalid, text: "x: no such action"},
		"deadline":          {err: context.DeadlineExceeded, want: executor.Timeout, text: "did not answer before its deadline: raise its timeout or check what it waits for"},
		"canceled":          {err: context.Canceled, want: executor.Interrupted, text: "was interrupted before it answered"},
		"contract":          {err: &pluginclient.ContractError{Message: "answered nonsense"}, want: executor.Failed, text: "answered nonsense"},
		"answered error":    {err: status.Error(codes.Unknown, "no\ndisk"), want: executor.Failed, text: "no disk"},
		"empty error":       {err: status.Error(codes.Unknown, ""), want: executor.Failed, text: "failed without a message"},
		"panic":             {err: status.Error(codes.Aborted, "plugin panicked: x"), want: executor.Failed, text: "plugin panicked: x"},
		"internal":          {err: status.Error(codes.Internal, "cannot decode"), want: executor.Failed, text: "answered something that is not part of the contract: cannot decode"},
		"unknown":           {err: status.Error(codes.Unimplemented, "unknown service"), want: executor.Invalid, text: "unknown service"},
		"other error of Do": {err: errors.New("odd"), want: executor.Failed, text: "odd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := &fakeConnection{}
			if tc.err != nil {
				conn.errs = []error{tc.err, tc.err, tc.err, tc.err}
			}
			_, err := newExecutor(conn, tc.resolveErr).Execute(t.Context(), call)
			if executor.ErrorKindOf(err) != tc.want || err == nil || err.Error() != tag+tc.text {
				t.Errorf("error is %s %q, want %s %q", executor.ErrorKindOf(err), err, tc.want, tag+tc.text)
			}
		})
	}
}

func TestProcessExecutor_ReplacedProcess(t *testing.T) {
	t.Parallel()
	conn := &fakeConnection{errs: []error{&host.StartError{Reason: host.ReasonUnloaded, Err: host.ErrUnloaded}}}
	answer, err := newExecutor(conn, nil).Execute(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	if want := "done with password=" + redact.Placeholder; answer.Message != want {
		t.Errorf("message is %q, want %q", answer.Message, want)
	}
}

func TestProcessExecutor_OtherAction(t *testing.T) {
	t.Parallel()
	other := call
	other.Action = "a.io/c"
	conn := &fakeConnection{}
	if _, err := newExecutor(conn, nil).Execute(t.Context(), other); executor.ErrorKindOf(err) != executor.Invalid || conn.calls != 0 {
		t.Errorf("error is %v after %d calls, want Invalid without one", err, conn.calls)
	}
}

func TestProcessExecutor_OutputLimits(t *testing.T) {
	t.Parallel()
	bad := map[string]map[string]string{"a.io/ok": {"k": "v"}, "a.io/x": {"k": strings.Repeat("v", 9<<10)}, "a.io/y": {"/": ""}}
	many := map[string]map[string]string{}
	for i := range 500 {
		many[fmt.Sprintf("a.io/%d", i)] = map[string]string{"k": strings.Repeat("v", 4<<10), "l": strings.Repeat("v", 4<<10-2)}
	}
	for name, tc := range map[string]struct {
		outputs, backup map[string]map[string]string
		want            string
	}{
		"of this run":     {outputs: bad, want: `the outputs of "a.io/x": the output "k" has 9216 bytes`},
		"of the backup":   {backup: bad, want: `the backup's outputs of "a.io/x": the output "k" has 9216 bytes`},
		"of this, many":   {outputs: many},
		"of backup, many": {backup: many},
		"of both, many":   {outputs: many, backup: many, want: "can be passed to a plugin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full := call
			full.Outputs, full.BackupOutputs = tc.outputs, tc.backup
			conn := &fakeConnection{}
			_, err := newExecutor(conn, nil).Execute(t.Context(), full)
			if tc.want == "" {
				if err != nil {
					t.Errorf("error is %v, want none", err)
				}
				return
			}
			if executor.ErrorKindOf(err) != executor.Invalid || !strings.Contains(err.Error(), tc.want) || conn.calls != 0 {
				t.Errorf("error is %v after %d calls, want Invalid with %q without one", err, conn.calls, tc.want)
			}
		})
	}
}
