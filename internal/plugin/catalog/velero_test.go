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
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
)

// veleroActions are the actions that velero lets faultplugin provide.
const veleroActions = "BackupItemAction:fault.example.io/a,BackupItemAction:fault.example.io/b"

// velero is a plugin for Velero. pairs are more environment variables.
func velero(name string, env ...string) catalog.Spec {
	variables := map[string]string{"FAULT_VELERO": veleroActions}
	for i := 0; i < len(env); i += 2 {
		variables[env[i]] = env[i+1]
	}
	return fault(name, variables)
}

// itemCall is one call of a BackupItemAction.
type itemCall struct {
	plugin, action  string
	key             string
	fault, argument string
	log             logr.Logger
}

func (i itemCall) do(ctx context.Context, c *catalog.Catalog) (pluginclient.BackupItemAnswer, error) {
	var answer pluginclient.BackupItemAnswer
	object := fmt.Appendf(nil, `{"fault":%q,"argument":%q}`, i.fault, i.argument)
	call, err := pluginclient.NewCaller(c.BackupItemAction(i.plugin, "", i.action), c.Redactor()).Begin(ctx, host.Call{Key: i.key, Log: i.log})
	if err != nil {
		return answer, err
	}
	answer, err = call.Action.Execute(ctx, pluginclient.ItemCall{Conn: call.Conn(), Action: i.action, CallID: call.ID(), Key: i.key}, object, []byte(subject))
	call.End(&err)
	return answer, err
}

func faulty(fault string) itemCall {
	return itemCall{plugin: "p", action: "fault.example.io/a", key: "run", fault: fault}
}

func kindOf(err error) executor.ErrorKind {
	var failed *pluginclient.CallError
	if errors.As(err, &failed) {
		return failed.Kind
	}
	return ""
}

func TestLoad_Velero(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	info := load(t, c, velero("p", "FAULT_VELERO", veleroActions+",VolumeSnapshotter:fault.example.io/disks,ObjectStore:fault.example.io/store"))
	want := []catalog.Action{
		{Kind: "BackupItemAction", Version: "v1", Name: "fault.example.io/a"},
		{Kind: "BackupItemAction", Version: "v1", Name: "fault.example.io/b"},
		{Kind: "ObjectStore", Version: "v1", Name: "fault.example.io/store"},
	}
	if diff := cmp.Diff(want, info.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"VolumeSnapshotter fault.example.io/disks"}, info.Ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
	answer, err := faulty("none").do(t.Context(), c)
	if err != nil || !strings.Contains(string(answer.Item), "none") {
		t.Errorf("response %+v, error %v", answer, err)
	}
}

func TestBackupItemAction_Failures(t *testing.T) {
	c := newCatalog(t, catalog.Options{Grace: 50 * time.Millisecond})
	load(t, c, velero("p"))
	for name, tc := range map[string]struct {
		fault    string
		argument string
		timeout  time.Duration
		want     executor.ErrorKind
		text     string
	}{
		"ends":         {fault: "exit", want: executor.Unreachable, text: "exit code 4 during the call"},
		"killed":       {fault: "kill", want: executor.Unreachable, text: "signal 9"},
		"hangs":        {fault: "hang", timeout: 200 * time.Millisecond, want: executor.Timeout, text: "before its deadline"},
		"too large":    {fault: "oversize", want: executor.Failed, text: "answered with more than 6291456 bytes"},
		"endless":      {fault: "endless", want: executor.Failed, text: "named 20000 additional objects"},
		"large object": {fault: "none", argument: strings.Repeat("x", 5<<20), want: executor.Failed, text: "more than the plugin accepts"},
		"panic":        {fault: "panic", want: executor.Failed, text: "plugin panicked: a pointer is nil"},
		// The plugin is available, only the service that it uses is not.
		"unavailable": {fault: "unavailable", want: executor.Failed, text: "the storage is unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.timeout)
				defer cancel()
			}
			call := faulty(tc.fault)
			call.argument = tc.argument
			_, err := call.do(ctx, c)
			if kindOf(err) != tc.want || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error is %v (%s), want %s with %q", err, kindOf(err), tc.want, tc.text)
			}
			// After any fault, the next object is handled normally.
			if _, err := faulty("none").do(t.Context(), c); err != nil {
				t.Errorf("the next call: %v", err)
			}
			if running := plugintesting.ListChildren(plugins); len(running) != 1 {
				t.Errorf("running are %q, want one process", running)
			}
		})
	}
}

// TestBackupItemAction_InvalidItem checks that invalid objects are passed on: the callers validate
// them.
func TestBackupItemAction_InvalidItem(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	load(t, c, velero("p"))
	answer, err := faulty("garbage").do(t.Context(), c)
	if err != nil || string(answer.Item) != "\x00\xff no json" {
		t.Errorf("response %q, error %v", answer.Item, err)
	}
}

// TestBackupItemAction_UnavailableStatus checks that a plugin that returns Unavailable for another
// service is not restarted, which would end the calls of others.
func TestBackupItemAction_UnavailableStatus(t *testing.T) {
	exits := make(chan string, 1)
	c := newCatalog(t, catalog.Options{OnExit: func(name string) { exits <- name }})
	load(t, c, velero("p"))
	before := plugintesting.ListChildren(plugins)
	if _, err := faulty("unavailable").do(t.Context(), c); err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(before, plugintesting.ListChildren(plugins)); diff != "" || len(exits) > 0 {
		t.Errorf("the process was restarted (-before +after):\n%s", diff)
	}
}

// TestBackupItemAction_WarmUp checks that first calls are serialized after every start:
// the framework of these plugins crashes on concurrent first calls.
func TestBackupItemAction_WarmUp(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	load(t, c, velero("p"))
	for range 3 {
		if _, err := faulty("kill").do(t.Context(), c); kindOf(err) != executor.Unreachable {
			t.Fatalf("error of the call that kills: %v", err)
		}
		var calls sync.WaitGroup
		for i := range 16 {
			call := faulty("none")
			call.action = []string{"fault.example.io/a", "fault.example.io/b"}[i%2]
			calls.Go(func() {
				if _, err := call.do(t.Context(), c); err != nil {
					t.Errorf("call of %s after a restart: %v", call.action, err)
				}
			})
		}
		calls.Wait()
	}
}

func TestLoad_WarmUpFailures(t *testing.T) {
	for name, tc := range map[string]struct{ how, wantReason, want string }{
		"error":         {how: "error", wantReason: pluginclient.ReasonFirstCallFailed, want: "BackupItemAction v1 fault.example.io/a failed: the licence has expired"},
		"unimplemented": {how: "unimplemented", wantReason: pluginclient.ReasonFirstCallFailed, want: "BackupItemAction v1 fault.example.io/a failed: unknown method"},
		"ends":          {how: "exit", wantReason: "ExitedAtOnce", want: "exit code 6"},
		"hangs":         {how: "hang", wantReason: "StartTimeout", want: "within 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCatalog(t, catalog.Options{})
			spec := velero("p", "FAULT_VELERO_BREAK", writeFile(t, filepath.Join(t.TempDir(), "break"), tc.how, 0o600))
			if tc.how == "hang" {
				spec.Process.StartTimeout = time.Second
			}
			_, err := c.Load(t.Context(), spec)
			var failed *catalog.LoadError
			if !errors.As(err, &failed) || failed.Reason != tc.wantReason || !strings.Contains(failed.Message, tc.want) {
				t.Errorf("error %v, want %s with %q", err, tc.wantReason, tc.want)
			}
			checkNoSecret(t, "the message", fmt.Sprint(err))
			if left := plugintesting.ListChildren(plugins); len(left) > 0 {
				t.Errorf("processes left behind: %q", left)
			}
		})
	}
}

// TestBackupItemAction_RestartNotReady checks that a process that runs but is not ready is not used,
// and does not prevent a later start.
func TestBackupItemAction_RestartNotReady(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	c := newCatalog(t, catalog.Options{Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	broken := filepath.Join(t.TempDir(), "break")
	load(t, c, velero("p", "FAULT_VELERO_BREAK", broken))
	writeFile(t, broken, "error", 0o600)
	if _, err := faulty("kill").do(t.Context(), c); kindOf(err) != executor.Unreachable {
		t.Fatalf("error of the call that kills: %v", err)
	}
	for range 2 {
		_, err := faulty("none").do(t.Context(), c)
		if kindOf(err) != executor.Unreachable || !strings.Contains(err.Error(), "the licence has expired") {
			t.Errorf("error while the process does not get ready: %v", err)
		}
		if left := plugintesting.ListChildren(plugins); len(left) > 0 {
			t.Errorf("a process that is not ready was kept: %q", left)
		}
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	now = now.Add(2 * time.Minute)
	mu.Unlock()
	if _, err := faulty("none").do(t.Context(), c); err != nil {
		t.Errorf("the plugin works again, but its calls do not: %v", err)
	}
}

func TestUnload_ForkedChildren(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	load(t, c, velero("p"))
	if _, err := faulty("fork").do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	const child = "sleep 31536001"
	if len(plugintesting.FindProcesses(child)) != 1 {
		t.Fatal("the plugin did not fork")
	}
	c.Unload(t.Context(), "p")
	plugintesting.Eventually(t, "the forked process has ended", func() bool { return len(plugintesting.FindProcesses(child)) == 0 })
}

// TestBackupItemAction_UnmarkedLog checks that lines of plugins that do not mark calls go to the run
// if it is the only active one.
func TestBackupItemAction_UnmarkedLog(t *testing.T) {
	operator, one, other := plugintesting.NewLog(t), plugintesting.NewLog(t), plugintesting.NewLog(t)
	c := newCatalog(t, catalog.Options{Logger: operator.Logger()})
	load(t, c, velero("p"))
	dir := t.TempDir()
	begin := func(barrier, key string, log, seenIn *plugintesting.Log) func() {
		t.Helper()
		call := faulty("barrier")
		call.argument, call.key, call.log = filepath.Join(dir, barrier), key, log.Logger()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if _, err := call.do(t.Context(), c); err != nil {
				t.Errorf("%s: %v", barrier, err)
			}
		}()
		plugintesting.Eventually(t, "the line of "+barrier+" was logged", func() bool { return strings.Contains(seenIn.Text(), call.argument) })
		return func() {
			writeFile(t, call.argument, "", 0o600)
			<-ended
		}
	}
	end1 := begin("1", "run-1", one, one)
	end2 := begin("2", "run-1", one, one)
	end3 := begin("3", "run-2", other, operator)
	end1()
	end2()
	end4 := begin("4", "run-2", other, other)
	end3()
	end4()
	if text := one.Text() + other.Text(); strings.Contains(text, filepath.Join(dir, "3")) {
		t.Errorf("a line that cannot be assigned is in the log of a run: %s", text)
	}
}

// TestBackupItemAction_AbandonedCallLog checks that the lines of an abandoned call, whose end is
// unknown, are not written to the log of another run.
func TestBackupItemAction_AbandonedCallLog(t *testing.T) {
	operator, one, other := plugintesting.NewLog(t), plugintesting.NewLog(t), plugintesting.NewLog(t)
	c := newCatalog(t, catalog.Options{Logger: operator.Logger()})
	load(t, c, velero("p"))
	ctx, cancel := context.WithCancel(t.Context())
	waits := faulty("wait")
	waits.argument, waits.key, waits.log = "first", "run-1", one.Logger()
	done := make(chan error, 1)
	go func() {
		_, err := waits.do(ctx, c)
		done <- err
	}()
	plugintesting.Eventually(t, "the call has begun", func() bool { return strings.Contains(one.Text(), "waiting of first") })
	cancel()
	if err := <-done; kindOf(err) != executor.Interrupted {
		t.Errorf("error is %v, want Interrupted", err)
	}
	one.Close()
	next := faulty("barrier")
	next.argument, next.key, next.log = writeFile(t, filepath.Join(t.TempDir(), "open"), "", 0o600), "run-2", other.Logger()
	if _, err := next.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	plugintesting.Eventually(t, "the line is in the operator's log", func() bool { return strings.Contains(operator.Text(), "at the barrier") })
	if text := other.Text(); text != "" {
		t.Errorf("the log of the other run contains %s", text)
	}
}

// TestBackupItemAction_ErrorOrigin checks that the stack is written only to the log.
func TestBackupItemAction_ErrorOrigin(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	load(t, c, velero("p"))
	log := plugintesting.NewLog(t)
	call := faulty("stack")
	call.log = log.Logger()
	_, err := call.do(t.Context(), c)
	if err == nil || err.Error() != "freezing failed" {
		t.Errorf("error is %v", err)
	}
	if text := log.Text(); !strings.Contains(text, "/src/plugin/action.go:42 plugin.(*Action).Execute") || strings.Contains(text, "main.go") {
		t.Errorf("the log does not contain the origin of the error: %s", text)
	}
}

// TestExecute_Environment checks that the address of the API server is passed on, and nothing
// else.
func TestExecute_Environment(t *testing.T) {
	c := newCatalog(t, catalog.Options{
		Env: map[string]string{"VELERO_NAMESPACE": "backups"},
		LookupEnv: func(name string) (string, bool) {
			return "host-" + name, name != "PATH" && name != "TMPDIR"
		},
	})
	load(t, c, fault("p", nil))
	answer, err := execute(t, c, "p", preBackup("k", map[string]string{"fault": "environment"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	env := "\n" + answer.Outputs["env"] + "\n"
	for _, want := range []string{
		"KUBERNETES_SERVICE_HOST=host-KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT=host-KUBERNETES_SERVICE_PORT", "VELERO_NAMESPACE=backups",
	} {
		if !strings.Contains(env, "\n"+want+"\n") {
			t.Errorf("the environment lacks %s:%s", want, env)
		}
	}
	if strings.Contains(env, "KUBECONFIG") {
		t.Errorf("the environment contains more than it should:%s", env)
	}
}

// TestProcess_MemoryLimit checks that a leaking plugin is killed before it affects the
// operator.
func TestProcess_MemoryLimit(t *testing.T) {
	exits := make(chan string, 1)
	c := newCatalog(t, catalog.Options{MaxMemory: 100 << 20, OnExit: func(name string) { exits <- name }})
	load(t, c, velero("p"))
	for range 2 {
		if _, err := faulty("leak").do(t.Context(), c); err != nil && kindOf(err) != executor.Unreachable {
			t.Fatal(err)
		}
	}
	if name := <-exits; name != "p" {
		t.Errorf("the process of %q ended", name)
	}
	if _, err := faulty("none").do(t.Context(), c); err != nil {
		t.Errorf("the call after it: %v", err)
	}
	leak := faulty("leak-and-hang")
	if _, err := leak.do(t.Context(), c); kindOf(err) != executor.Unreachable || !strings.Contains(err.Error(), "used more than 100 MiB of memory and was ended during the call") {
		t.Errorf("error of the call that leaks is %v", err)
	}
}
