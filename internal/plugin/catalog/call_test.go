// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

func TestExecute_Failures(t *testing.T) {
	c := newCatalog(t, catalog.Options{Grace: 50 * time.Millisecond})
	load(t, c, fault("p", nil))
	parameter := func(name string) executor.Call {
		return preBackup("key-"+name, map[string]string{"fault": name})
	}
	large := preBackup("large", nil)
	large.Subject = []byte(`{"x":"` + strings.Repeat("s", 4<<20) + `"}`)
	noKey := preBackup("", nil)
	notJSON := preBackup("json", nil)
	notJSON.Subject = []byte("no json")
	manyParameters := preBackup("parameters", map[string]string{"big": strings.Repeat("p", 65<<10)})
	for name, tc := range map[string]struct {
		call    executor.Call
		timeout time.Duration
		want    executor.ErrorKind
		text    string
	}{
		"error":                {call: parameter("error"), want: executor.Failed, text: "the database said no"},
		"unavailable inside":   {call: parameter("unavailable"), want: executor.Failed, text: "the database is unavailable"},
		"panic":                {call: parameter("panic"), want: executor.Failed, text: "plugin panicked: something is nil"},
		"unknown status":       {call: parameter("status"), want: executor.Failed, text: "answered status 7, which is not part of the contract"},
		"no status":            {call: parameter("no-status"), want: executor.Failed, text: "answered status 0, which is not part of the contract"},
		"Again without time":   {call: parameter("again-without-time"), want: executor.Failed, text: "not part of the contract"},
		"Again after a year":   {call: parameter("again-in-a-year"), want: executor.Failed, text: "at most 24h0m0s is allowed"},
		"huge message":         {call: parameter("huge-message"), want: executor.Failed, text: "more than 1048576 bytes"},
		"huge output":          {call: parameter("huge-output"), want: executor.Failed, text: "at most 4096 are allowed"},
		"many outputs":         {call: parameter("many-outputs"), want: executor.Failed, text: "33 outputs, at most 32"},
		"killed":               {call: parameter("kill"), want: executor.Unreachable, text: "ended by signal 9 (killed) during the call"},
		"exits":                {call: parameter("exit"), want: executor.Unreachable, text: "exit code 4 during the call"},
		"hangs":                {call: parameter("hang"), timeout: 100 * time.Millisecond, want: executor.Timeout, text: "before its deadline"},
		"waits for ctx":        {call: parameter("wait"), timeout: 100 * time.Millisecond, want: executor.Timeout, text: "before its deadline"},
		"answers too late":     {call: parameter("late"), timeout: 100 * time.Millisecond, want: executor.Timeout, text: "before its deadline"},
		"object too large":     {call: large, want: executor.Invalid, text: "at most 3145728 can be passed to a plugin"},
		"parameters too large": {call: manyParameters, want: executor.Invalid, text: "bytes of parameters"},
		"no key":               {call: noKey, want: executor.Invalid, text: "no idempotency key"},
		"object is not JSON":   {call: notJSON, want: executor.Invalid, text: "parsing the Backup object"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.timeout)
				defer cancel()
			}
			e, err := c.Executor("p", tc.call.ActionKind(), tc.call.Action)
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.Execute(ctx, tc.call)
			if got := executor.ErrorKindOf(err); got != tc.want {
				t.Errorf("kind is %q, want %q (%v)", got, tc.want, err)
			}
			if err == nil {
				return
			}
			text := err.Error()
			if !strings.HasPrefix(text, "PreBackupAction(fault.example.io/fault): ") || !strings.Contains(text, tc.text) {
				t.Errorf("error %q lacks its tag or %q", text, tc.text)
			}
			if text != executor.OneLine(text) {
				t.Errorf("error is not one short line: %q", text)
			}
			checkNoSecret(t, "the error", text)
			// No fault affects the next call.
			if _, err := e.Execute(t.Context(), preBackup("after-"+name, nil)); err != nil {
				t.Errorf("the next call fails: %v", err)
			}
		})
	}
}

func TestExecute_Canceled(t *testing.T) {
	c := newCatalog(t, catalog.Options{Grace: 50 * time.Millisecond})
	calls := filepath.Join(t.TempDir(), "calls")
	load(t, c, fault("p", map[string]string{"FAULT_CALL_LOG": calls}))
	e, err := c.Executor("p", "PreBackupAction", "fault.example.io/fault")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.Execute(ctx, preBackup("k", map[string]string{"fault": "hang"}))
		done <- err
	}()
	plugintesting.WaitForFile(t, calls)
	cancel()
	if err := <-done; executor.ErrorKindOf(err) != executor.Interrupted || !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want Interrupted", err)
	}
}

// TestExecute_ShortDeadlineAfterHang makes calls that would all time out waiting for
// the previous call if each of them restarted its grace period.
func TestExecute_ShortDeadlineAfterHang(t *testing.T) {
	const little = 50 * time.Millisecond
	c := newCatalog(t, catalog.Options{Grace: 4 * little})
	load(t, c, fault("p", nil))
	e, err := c.Executor("p", "PreBackupAction", "fault.example.io/fault")
	if err != nil {
		t.Fatal(err)
	}
	call := func(key, fault string) error {
		ctx, cancel := context.WithTimeout(t.Context(), little)
		defer cancel()
		_, err := e.Execute(ctx, preBackup(key, map[string]string{"fault": fault}))
		return err
	}
	if err := call("hangs", "hang"); executor.ErrorKindOf(err) != executor.Timeout {
		t.Fatalf("error is %v, want Timeout", err)
	}
	for range 200 {
		if err = call("after", "none"); err == nil {
			return
		}
	}
	t.Errorf("no call succeeds: %v", err)
}

func TestExecute_Answers(t *testing.T) {
	c := newCatalog(t, catalog.Options{LogLevel: "debug", Features: []string{"A", "B"}, Env: map[string]string{"VELERO_NAMESPACE": "ns"}})
	spec := fault("p", map[string]string{"OWN": "value"})
	spec.Process.Args = []string{"--own-flag"}
	load(t, c, spec)
	again, err := execute(t, c, "p", preBackup("k1", map[string]string{"fault": "again"}), nil)
	if diff := cmp.Diff(executor.Answer{RetryAfter: executor.MinRetryAfter, Message: "waiting for token=" + redact.Placeholder}, again); diff != "" || err != nil {
		t.Errorf("answer Again: %v (-want +got):\n%s", err, diff)
	}
	pre, err := execute(t, c, "p", preBackup("k2", map[string]string{"fault": "outputs"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	post := preBackup("k3", map[string]string{"fault": "outputs"})
	post.Point = executor.PointPostBackup
	post.Outputs = map[string]map[string]string{post.Action: pre.Outputs}
	got, err := execute(t, c, "p", post, nil)
	if diff := cmp.Diff(map[string]string{"from": "k3", "pre": "k2"}, got.Outputs); diff != "" || err != nil {
		t.Errorf("outputs of the pre action: %v (-want +got):\n%s", err, diff)
	}
	seen, err := execute(t, c, "p", preBackup("k4", map[string]string{"fault": "environment"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if args := seen.Outputs["args"]; args != "--log-level debug --features A,B --own-flag" {
		t.Errorf("arguments are %q", args)
	}
	checkEnvironment(t, seen.Outputs["env"])
}

// checkEnvironment checks that only listed variables were inherited.
func checkEnvironment(t *testing.T, env string) {
	t.Helper()
	names := map[string]bool{}
	for line := range strings.Lines(env) {
		name, _, _ := strings.Cut(line, "=")
		names[name] = true
	}
	for _, want := range []string{"PATH", "OWN", "VELERO_NAMESPACE", "VELERO_PLUGIN"} {
		if !names[want] {
			t.Errorf("the environment lacks %s", want)
		}
	}
	for name := range names {
		switch {
		case strings.HasPrefix(name, "PLUGIN_"), strings.HasPrefix(name, "VELERO_"):
		case name == "PATH", name == "HOME", name == "TMPDIR", name == "LANG", name == "TZ", name == "OWN":
		default:
			t.Errorf("the environment contains %s", name)
		}
	}
}

func TestExecute_ConcurrentFirstCalls(t *testing.T) {
	exits := make(chan string, 8)
	c := newCatalog(t, catalog.Options{OnExit: func(name string) { exits <- name }})
	load(t, c, fault("p", nil))
	// For the first calls of a new process, kill the process that Load has started.
	_, err := execute(t, c, "p", preBackup("kill", map[string]string{"fault": "kill"}), nil)
	if executor.ErrorKindOf(err) != executor.Unreachable {
		t.Fatalf("error of the killed call: %v", err)
	}
	if name := <-exits; name != "p" {
		t.Errorf("OnExit was called for %q", name)
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if _, err := execute(t, c, "p", preBackup(fmt.Sprint("k", i), nil), nil); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if running := plugintesting.ListChildren(plugins); len(running) != 1 {
		t.Errorf("running are %q, want one process", running)
	}
}

func TestExecute_CrashLoopBackoff(t *testing.T) {
	var mu sync.Mutex
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := newCatalog(t, catalog.Options{Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	load(t, c, fault("p", nil))
	kill := func(key string) string {
		_, err := execute(t, c, "p", preBackup(key, map[string]string{"fault": "kill"}), nil)
		if executor.ErrorKindOf(err) != executor.Unreachable {
			t.Fatalf("error of the killed call: %v", err)
		}
		return err.Error()
	}
	// The first two start a process; after the second there is a back-off.
	kill("1")
	kill("2")
	if text := kill("3"); !strings.Contains(text, "failed repeatedly") {
		t.Errorf("the third call was made: %s", text)
	}
	mu.Lock()
	now = now.Add(2 * time.Minute)
	mu.Unlock()
	if _, err := execute(t, c, "p", preBackup("4", nil), nil); err != nil {
		t.Errorf("after the back-off: %v", err)
	}
	// A response resets the count of failures.
	kill("5")
	kill("6")
}

func TestExecute_AfterAbandonedCall(t *testing.T) {
	c := newCatalog(t, catalog.Options{Grace: 50 * time.Millisecond})
	load(t, c, fault("p", nil))
	e, err := c.Executor("p", "PreBackupAction", "fault.example.io/fault")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := e.Execute(ctx, preBackup("same", map[string]string{"fault": "hang"})); executor.ErrorKindOf(err) != executor.Timeout {
		t.Fatalf("error is %v, want Timeout", err)
	}
	second := preBackup("same", nil)
	second.Attempt = 2
	if _, err := e.Execute(t.Context(), second); err != nil {
		t.Errorf("the second attempt fails: %v", err)
	}
}

func TestExecute_LogAttribution(t *testing.T) {
	operator := plugintesting.NewLog(t)
	c := newCatalog(t, catalog.Options{Logger: operator.Logger()})
	load(t, c, fault("p", nil))
	const lines, runs = 200, 4
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			key := fmt.Sprintf("run-%d", i)
			log := plugintesting.NewLog(t)
			if _, err := execute(t, c, "p", preBackup(key, map[string]string{"fault": fmt.Sprint("log:", lines)}), log); err != nil {
				t.Errorf("%s: %v", key, err)
			}
			// The log is complete immediately, and no more lines follow.
			log.Close()
			got := log.Lines()
			if len(got) != lines {
				t.Errorf("%s has %d lines, want %d", key, len(got), lines)
			}
			for _, line := range got {
				if !strings.Contains(line, " of "+key+`"`) {
					t.Errorf("%s has the line %s", key, line)
				}
			}
		})
	}
	wg.Wait()
	if text := operator.Text(); strings.Contains(text, " of run-") {
		t.Errorf("lines of runs are in the operator's log: %s", text)
	}
}

func TestExecute_LogContent(t *testing.T) {
	operator := plugintesting.NewLog(t)
	c := newCatalog(t, catalog.Options{Logger: operator.Logger()})
	load(t, c, fault("p", map[string]string{"FAULT_TOKEN": "env-secret-value"}))
	for name, tc := range map[string]struct{ want, unwanted []string }{
		"log-raw":     {want: []string{"untagged line of key-log-raw", `"severity"="warning"`}},
		"log-control": {want: []string{"evil [31mred[0m  bell"}, unwanted: []string{"\x1b", "\\u001b", "\x00"}},
		"log-long":    {want: []string{"yyy", "the rest of the line is dropped", "after the long line"}},
		"log-secret":  {want: []string{"Connecting with password=[REDACTED]", `"apiKey"="[REDACTED]"`, "raw secret: [REDACTED]"}},
		"panic":       {want: []string{"Recovering from a panic", "goroutine"}},
	} {
		t.Run(name, func(t *testing.T) {
			log := plugintesting.NewLog(t)
			_, _ = execute(t, c, "p", preBackup("key-"+name, map[string]string{"fault": name}), log)
			log.Close()
			for _, part := range tc.want {
				if !strings.Contains(log.Text(), part) {
					t.Errorf("the log lacks %q:\n%.2000s", part, log.Text())
				}
			}
			for _, part := range tc.unwanted {
				if strings.Contains(log.Text(), part) {
					t.Errorf("the log contains %q:\n%.2000s", part, log.Text())
				}
			}
			checkNoSecret(t, "the run's log", log.Text())
		})
	}
	checkNoSecret(t, "the operator's log", operator.Text())
}

func TestExecute_PrintedLogLines(t *testing.T) {
	operator := plugintesting.NewLog(t)
	c := newCatalog(t, catalog.Options{Logger: operator.Logger()})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	load(t, c, catalog.Spec{Name: "p", Process: catalog.ProcessSpec{Path: self, Env: map[string]string{"CATALOG_TEST_PLUGIN": "1"}}})
	for _, key := range []string{"first", "second"} {
		call := preBackup(key, nil)
		call.Action = "print"
		log := plugintesting.NewLog(t)
		if _, err := execute(t, c, "p", call, log); err != nil {
			t.Fatal(err)
		}
		log.Close()
		for _, part := range []string{"standard output", "standard error", "slog"} {
			if want := part + " by " + key; !strings.Contains(log.Text(), want) {
				t.Errorf("the log of %s lacks %q:\n%s", key, want, log.Text())
			}
		}
	}
}

func TestExecute_LateLogLines(t *testing.T) {
	operator := plugintesting.NewLog(t)
	c := newCatalog(t, catalog.Options{Logger: operator.Logger(), Grace: safety})
	load(t, c, fault("p", nil))
	e, err := c.Executor("p", "PreBackupAction", "fault.example.io/fault")
	if err != nil {
		t.Fatal(err)
	}
	log := plugintesting.NewLog(t)
	ctx, cancel := context.WithTimeout(logr.NewContext(t.Context(), log.Logger()), 100*time.Millisecond)
	defer cancel()
	if _, err := e.Execute(ctx, preBackup("k", map[string]string{"fault": "late"})); executor.ErrorKindOf(err) != executor.Timeout {
		t.Fatalf("error is %v, want Timeout", err)
	}
	log.Close()
	// The next call waits for the end of the late one, so its line has been logged then.
	if _, err := e.Execute(t.Context(), preBackup("k2", nil)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(operator.Text(), "late line of k") {
		t.Errorf("the operator's log lacks the late line:\n%s", operator.Text())
	}
}

// BenchmarkExecute measures a call of an action that does nothing.
func BenchmarkExecute(b *testing.B) {
	c := catalog.New(catalog.Options{})
	defer c.Close(b.Context())
	if _, err := c.Load(b.Context(), fault("p", nil)); err != nil {
		b.Fatal(err)
	}
	e, err := c.Executor("p", "PreBackupAction", "fault.example.io/fault")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := e.Execute(b.Context(), preBackup("k", nil)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad measures starting and stopping a plugin.
func BenchmarkLoad(b *testing.B) {
	c := catalog.New(catalog.Options{})
	defer c.Close(b.Context())
	for b.Loop() {
		if _, err := c.Load(b.Context(), fault("p", nil)); err != nil {
			b.Fatal(err)
		}
		c.Unload(b.Context(), "p")
	}
}
