// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/webhook"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/tracing"
)

// seen is a received request.
type seen struct {
	line   string
	header http.Header
	body   map[string]any
	raw    string
}

// record returns a handler that stores the last request and answers {}.
func record(t *testing.T, into *seen) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		*into = seen{line: r.Method + " " + r.Host + r.RequestURI + " " + r.Proto, header: r.Header}
		content, err := io.ReadAll(r.Body)
		into.raw = string(content)
		if err == nil {
			err = json.Unmarshal(content, &into.body)
		}
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "{}")
	}
}

func TestExecute_BackupRequest(t *testing.T) {
	// If a proxy were taken from the environment, nothing would be received.
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("ALL_PROXY", "http://127.0.0.1:1")
	var got seen
	server := serve(t, record(t, &got))
	opts := optionsFor(server)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "https://"), ":")
	opts.URL, opts.Path = "https://example.com:"+port+"/hooks/", "/freeze/$it(now)"
	opts.Resolver = &resolver{answers: [][]string{{"127.0.0.1"}}}
	opts.UserAgent = "grapnel/1.2.3"
	call := newCall()
	call.Parameters = map[string]string{"path": "/../{x}?y=$(z)", "empty": ""}
	call.Outputs = map[string]map[string]string{"example.io/first": {"k": "v"}}
	ctx := (&tracing.Tracer{}).WithOperation(t.Context(), "0b6e2f0c-7f1d-4d3b-9a58-1f0d5d4c8e11", "operation-1")
	answer, err := newExecutor(t, opts).Execute(ctx, call)
	if err != nil || answer.RetryAfter != 0 || answer.Message != "" || len(answer.Outputs) != 0 {
		t.Fatalf("answer is %+v, %v", answer, err)
	}
	if want := "POST example.com:" + port + "/hooks/freeze/$it(now) HTTP/1.1"; got.line != want {
		t.Errorf("request is %q, want %q", got.line, want)
	}
	for name, want := range map[string]string{
		"Idempotency-Key": "6f1c0e2a", "Grapnel-Attempt": "2", "User-Agent": "grapnel/1.2.3",
		"Content-Type": "application/json", "Accept": "application/json", "Authorization": "", "Accept-Encoding": "", "Cookie": "",
		"Traceparent": tracing.Traceparent(ctx),
	} {
		if value := got.header.Get(name); value != want {
			t.Errorf("header %s is %q, want %q", name, value, want)
		}
	}
	want := map[string]any{
		"apiVersion": "hooks.grapnel.dev/v1", "kind": "HookRequest", "point": "PreBackup", "action": "example.io/freeze",
		"key": "6f1c0e2a", "attempt": 2.0, "parameters": map[string]any{"path": "/../{x}?y=$(z)", "empty": ""},
		"outputs": map[string]any{"example.io/first": map[string]any{"k": "v"}}, "subject": map[string]any{"kind": "Backup"},
	}
	if diff := cmp.Diff(want, got.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestExecute_RestoreRequest(t *testing.T) {
	t.Parallel()
	var got seen
	call := newCall()
	call.Point, call.BackupName = executor.PointPostRestore, "nightly"
	call.BackupOutputs = map[string]map[string]string{"example.io/freeze": {"replicas": "3"}}
	if _, err := newExecutor(t, optionsFor(serve(t, record(t, &got)))).Execute(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "hooks.grapnel.dev/v1", "kind": "HookRequest", "point": "PostRestore", "action": "example.io/freeze",
		"key": "6f1c0e2a", "attempt": 2.0, "parameters": map[string]any{}, "outputs": map[string]any{}, "backupName": "nightly",
		"backupOutputs": map[string]any{"example.io/freeze": map[string]any{"replicas": "3"}}, "subject": map[string]any{"kind": "Backup"},
	}
	if diff := cmp.Diff(want, got.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if got.header.Get("User-Agent") != "grapnel" {
		t.Errorf("User-Agent is %q", got.header.Get("User-Agent"))
	}
}

// TestExecute_RepeatedRequest covers endpoints that compare a request with an earlier one of the same key.
func TestExecute_RepeatedRequest(t *testing.T) {
	t.Parallel()
	var got seen
	e := newExecutor(t, optionsFor(serve(t, record(t, &got))))
	call := newCall()
	call.Parameters = map[string]string{}
	for i := range 20 {
		call.Parameters[fmt.Sprint(i)] = "x"
	}
	first := ""
	for range 2 {
		if _, err := e.Execute(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		if first != "" && got.raw != first {
			t.Errorf("the same call is sent as %s, and as %s", first, got.raw)
		}
		first = got.raw
	}
}

func TestExecute_InvalidCalls(t *testing.T) {
	t.Parallel()
	large := map[string]map[string]string{}
	for i := range 700 {
		large[fmt.Sprintf("example.io/%d", i)] = map[string]string{"k": strings.Repeat("v", 4<<10), "l": strings.Repeat("v", 4<<10-2)}
	}
	for name, tc := range map[string]struct {
		change func(*executor.Call)
		want   string
	}{
		"no key":           {func(c *executor.Call) { c.Key = "" }, "the call has no idempotency key"},
		"odd key":          {func(c *executor.Call) { c.Key = "a\r\nX: y" }, "the call's idempotency key is not at most 253 visible"},
		"no attempt":       {func(c *executor.Call) { c.Attempt = 0 }, "the call has attempt number 0"},
		"no subject":       {func(c *executor.Call) { c.Subject = nil }, "the call has no object"},
		"subject no JSON":  {func(c *executor.Call) { c.Subject = []byte(`{"a":`) }, "the call cannot be encoded as JSON"},
		"subject breaks":   {func(c *executor.Call) { c.Subject = []byte(`{}, "key": "other"`) }, "the call cannot be encoded as JSON"},
		"large subject":    {func(c *executor.Call) { c.Subject = make([]byte, 3<<20+1) }, "the object it runs for has 3145729 bytes"},
		"large parameters": {func(c *executor.Call) { c.Parameters = map[string]string{"k": strings.Repeat("v", 64<<10)} }, "65537 bytes of parameters"},
		"odd output": {
			func(c *executor.Call) { c.BackupOutputs = map[string]map[string]string{"a": {"/": ""}} },
			`the backup's outputs of "a": the output's key "/"`,
		},
		"all together": {func(c *executor.Call) { c.Outputs, c.BackupOutputs = large, large }, "the object and the outputs of earlier actions have"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got seen
			call := newCall()
			tc.change(&call)
			_, err := newExecutor(t, optionsFor(serve(t, record(t, &got)))).Execute(t.Context(), call)
			wantError(t, err, executor.Invalid, tc.want)
			if got.line != "" {
				t.Error("it was called")
			}
		})
	}
}

// TestExecute_TokenRedaction checks that each call sends the current token, and that no text contains any token.
func TestExecute_TokenRedaction(t *testing.T) {
	t.Parallel()
	token, failed := "first-token-123\n", error(nil)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		w.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(w, `{"message":"you said %s","log":["heard %[1]s"]}`, r.Header.Get("Authorization"))
	})
	opts := optionsFor(server)
	opts.Credentials = func(context.Context) (webhook.Credentials, error) {
		return webhook.Credentials{BearerToken: token}, failed
	}
	e := newExecutor(t, opts)
	ctx, log := recorded(t.Context())
	for _, token = range []string{"first-token-123\n", "second-token-456"} {
		_, err := e.Execute(ctx, newCall())
		wantError(t, err, executor.Failed, "answered 409 Conflict: you said Bearer "+redact.Placeholder)
	}
	token = "tokén-with-more"
	_, err := e.Execute(ctx, newCall())
	wantError(t, err, executor.Invalid, "its credentials cannot be used: the token has characters that are not visible ASCII")
	failed = errors.New("reading the Secret: password=abc")
	_, err = e.Execute(ctx, newCall())
	wantError(t, err, executor.Unreachable, "its credentials could not be read: reading the Secret: password="+redact.Placeholder)
	failed = fmt.Errorf("there is no Secret hook: %w", webhook.ErrInvalidCredentials)
	_, err = e.Execute(ctx, newCall())
	wantError(t, err, executor.Invalid, "its credentials could not be read: there is no Secret hook")
	if text := strings.Join(log.all, "\n"); strings.Contains(text, "token") || strings.Count(text, redact.Placeholder) != 2 {
		t.Errorf("log is %s", text)
	}
}

// TestExecute_TokenHeader checks the header itself, which no text shows.
func TestExecute_TokenHeader(t *testing.T) {
	t.Parallel()
	var got seen
	opts := optionsFor(serve(t, record(t, &got)))
	tokens := []string{"first-token-123\n", "second-token-456", ""}
	next := 0
	opts.Credentials = func(context.Context) (webhook.Credentials, error) {
		next++
		return webhook.Credentials{BearerToken: tokens[next-1]}, nil
	}
	e := newExecutor(t, opts)
	for _, want := range []string{"Bearer first-token-123", "Bearer second-token-456", ""} {
		if _, err := e.Execute(t.Context(), newCall()); err != nil || got.header.Get("Authorization") != want {
			t.Errorf("Authorization is %q, %v, want %q", got.header.Get("Authorization"), err, want)
		}
	}
}

func TestExecute_Concurrent(t *testing.T) {
	t.Parallel()
	opts := optionsFor(serve(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		_, _ = fmt.Fprintf(w, `{"message":%q,"log":[%[1]q]}`, r.Header.Get("Idempotency-Key"))
	}))
	opts.Credentials = func(context.Context) (webhook.Credentials, error) {
		return webhook.Credentials{BearerToken: "some-token"}, nil
	}
	e := newExecutor(t, opts)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			call := newCall()
			call.Key = fmt.Sprintf("key-%d", i)
			ctx, log := recorded(t.Context())
			answer, err := e.Execute(ctx, call)
			if err != nil || answer.Message != call.Key || len(log.all) != 1 || !strings.Contains(log.all[0], call.Key+`"`) {
				t.Errorf("%s: answer is %+v, %v, logged %v", call.Key, answer, err, log.all)
			}
		})
	}
	wg.Wait()
}
