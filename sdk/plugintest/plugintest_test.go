// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/plugintest"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

type actionFunc func(ctx context.Context, req *hook.Request) (*hook.Response, error)

func (f actionFunc) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	return f(ctx, req)
}

// start serves one pre action named "a".
func start(t *testing.T, f actionFunc) *plugintest.Plugin {
	t.Helper()
	return plugintest.Start(t, serve.New().RegisterPreBackupActionV1("a", func() (prebackupv1.PreBackupAction, error) { return f, nil }))
}

func TestCheckContract_HookAction(t *testing.T) {
	t.Parallel()
	plugintest.CheckContract(t, start(t, func(_ context.Context, req *hook.Request) (*hook.Response, error) {
		return hook.Done().WithOutput("key", req.IdempotencyKey), nil
	}), plugintest.Contract{})
}

func TestExecuteHookAction_Responses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		action   actionFunc
		wantCode codes.Code
		wantText string
	}{
		"nil is done": {action: func(context.Context, *hook.Request) (*hook.Response, error) { return nil, nil }},
		"error":       {action: func(context.Context, *hook.Request) (*hook.Response, error) { return nil, errors.New("no disk") }, wantCode: codes.Unknown, wantText: "no disk"},
		"status is lost": {action: func(context.Context, *hook.Request) (*hook.Response, error) {
			return nil, status.Error(codes.Unavailable, "db")
		}, wantCode: codes.Unknown, wantText: "db"},
		"panic": {action: func(context.Context, *hook.Request) (*hook.Response, error) { panic("oops") }, wantCode: codes.Aborted, wantText: "plugin panicked: oops"},
		"index panic": {action: func(_ context.Context, req *hook.Request) (*hook.Response, error) {
			_ = req.Action[len(req.Action)]
			return nil, nil
		}, wantCode: codes.Aborted, wantText: "plugin panicked"},
		"bad output": {action: func(context.Context, *hook.Request) (*hook.Response, error) {
			return hook.Done().WithOutput("a/b", "c"), nil
		}, wantCode: codes.Unknown, wantText: "not allowed"},
		"negative Again":   {action: func(context.Context, *hook.Request) (*hook.Response, error) { return hook.Again(-1, ""), nil }, wantCode: codes.Unknown, wantText: "is negative"},
		"Again after days": {action: func(context.Context, *hook.Request) (*hook.Response, error) { return hook.Again(25*time.Hour, ""), nil }, wantCode: codes.Unknown, wantText: "at most 24h"},
		"long error": {action: func(context.Context, *hook.Request) (*hook.Response, error) {
			return nil, errors.New(strings.Repeat("€", 1<<20))
		}, wantCode: codes.Unknown, wantText: "€…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := start(t, tc.action).PreBackup(t.Context(), "a", plugintest.NewRequest())
			if status.Code(err) != tc.wantCode || (err != nil && !strings.Contains(err.Error(), tc.wantText)) {
				t.Errorf("error is %v, want %s with %q", err, tc.wantCode, tc.wantText)
			}
			if err != nil && strings.Contains(err.Error(), "goroutine") {
				t.Errorf("the error contains a stack: %v", err)
			}
		})
	}
}

func TestExecuteHookAction_InvalidRequests(t *testing.T) {
	t.Parallel()
	p := start(t, func(context.Context, *hook.Request) (*hook.Response, error) { return nil, nil })
	noKey := plugintest.NewRequest()
	noKey.IdempotencyKey = ""
	noBackup := plugintest.NewRequest()
	noBackup.Backup.Raw = nil
	for name, tc := range map[string]struct {
		action string
		req    *hook.Request
		want   codes.Code
	}{
		"unknown action": {action: "b", req: plugintest.NewRequest(), want: codes.Unimplemented},
		"no key":         {action: "a", req: noKey, want: codes.InvalidArgument},
		"no backup":      {action: "a", req: noBackup, want: codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := p.PreBackup(t.Context(), tc.action, tc.req); status.Code(err) != tc.want {
				t.Errorf("error is %v, want %s", err, tc.want)
			}
		})
	}
}

func TestExecuteHookAction_SameKey(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	entered := make(chan struct{}, 8)
	leave := make(chan struct{})
	p := start(t, func(context.Context, *hook.Request) (*hook.Response, error) {
		most.Store(max(most.Load(), running.Add(1)))
		entered <- struct{}{}
		<-leave
		running.Add(-1)
		return hook.Done(), nil
	})
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := p.PreBackup(t.Context(), "a", plugintest.NewRequest())
			results <- err
		}()
	}
	<-entered
	// A call whose ctx ends does not wait for the others.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.PreBackup(ctx, "a", plugintest.NewRequest()); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error of the canceled call is %v", err)
	}
	close(leave)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d calls with one key ran at the same time", most.Load())
	}
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	p := start(t, func(ctx context.Context, req *hook.Request) (*hook.Response, error) {
		sdk.Logger(ctx).Warn("Freezing", "backup", req.Backup.Name)
		return nil, nil
	})
	if _, err := p.PreBackup(t.Context(), "a", plugintest.NewRequest()); err != nil {
		t.Fatal(err)
	}
	lines := p.LogLines("key")
	if len(lines) != 1 {
		t.Fatalf("lines are %q, want one", lines)
	}
	for _, part := range []string{`"@level":"warn"`, `"@message":"Freezing"`, `"@key":"key"`, `"@call":"1"`, `"backup":"nightly"`} {
		if !strings.Contains(lines[0], part) {
			t.Errorf("%s lacks %s", lines[0], part)
		}
	}
}
