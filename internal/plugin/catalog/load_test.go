// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
)

// secrets are the secrets that faultplugin leaks; none may be shown.
var secrets = []string{"hunter2", "abcdef123456", "k-123456", "MIIEvQIBADANBg", "env-secret-value"}

func checkNoSecret(t *testing.T, where, text string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows the secret %q: %s", where, secret, text)
		}
	}
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// copyPlugin creates a binary that a test can replace.
func copyPlugin(t *testing.T, name, to string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(plugins, name))
	if err != nil {
		t.Fatal(err)
	}
	// A running binary cannot be written to, but it can be replaced.
	next := to + ".next"
	writeFile(t, next, string(data), 0o755)
	if err := os.Rename(next, to); err != nil {
		t.Fatal(err)
	}
}

func TestLoad_Failures(t *testing.T) {
	dir := t.TempDir()
	c := newCatalog(t, catalog.Options{})
	start := func(name string) catalog.Spec { return fault("p", map[string]string{"FAULT_START": name}) }
	hanging := func(name string) catalog.Spec {
		spec := start(name)
		spec.Process.StartTimeout = time.Second
		return spec
	}
	path := func(path string) catalog.Spec {
		return catalog.Spec{Name: "p", Process: catalog.ProcessSpec{Path: path}}
	}
	for name, tc := range map[string]struct {
		spec       catalog.Spec
		wantReason string
		want       []string
	}{
		"missing file":      {spec: path(dir + "/none"), wantReason: "BinaryNotFound", want: []string{"there is no file", "check the path"}},
		"below a file":      {spec: path(plugins + "/faultplugin/x"), wantReason: "BinaryNotFound", want: []string{"check the path"}},
		"directory":         {spec: path(dir), wantReason: "NotExecutable", want: []string{"is a directory"}},
		"not executable":    {spec: path(writeFile(t, dir+"/plain", "x", 0o644)), wantReason: "NotExecutable", want: []string{"chmod +x"}},
		"no program":        {spec: path(writeFile(t, dir+"/text", "x", 0o755)), wantReason: "NotExecutable", want: []string{"architecture"}},
		"no interpreter":    {spec: path(writeFile(t, dir+"/script", "#!/none\n", 0o755)), wantReason: "NotExecutable", want: []string{"interpreter"}},
		"relative path":     {spec: path("bin/x"), wantReason: "InvalidSpec", want: []string{"not absolute"}},
		"no name":           {spec: catalog.Spec{}, wantReason: "InvalidSpec", want: []string{"no name"}},
		"handshake env":     {spec: fault("p", map[string]string{"PLUGIN_CLIENT_CERT": "x"}), wantReason: "InvalidSpec", want: []string{"PLUGIN_CLIENT_CERT", "remove it"}},
		"bad env":           {spec: fault("p", map[string]string{"A=B": "x"}), wantReason: "InvalidSpec", want: []string{"remove it"}},
		"exits immediately": {spec: start("exit"), wantReason: "ExitedAtOnce", want: []string{"exit code 3", `"cannot read the licence file"`}},
		"exits silently":    {spec: start("exit-silently"), wantReason: "ExitedAtOnce", want: []string{"exit code 0", "logged nothing"}},
		"rubbish":           {spec: start("rubbish"), wantReason: "HandshakeFailed", want: []string{`"Hello! Starting up`, "prints nothing to standard output"}},
		"rubbish, exits":    {spec: start("rubbish-and-exit"), wantReason: "HandshakeFailed", want: []string{`"usage: tool [flags]"`}},
		"endless rubbish":   {spec: start("endless"), wantReason: "HandshakeFailed", want: []string{`"xxx`}},
		"wrong protocol":    {spec: start("wrong-protocol"), wantReason: "HandshakeFailed", want: []string{"version 2 is needed", "rebuild"}},
		"wrong cookie":      {spec: start("wrong-cookie"), wantReason: "ExitedAtOnce"},
		"net/rpc":           {spec: start("netrpc"), wantReason: "HandshakeFailed", want: []string{"does not offer gRPC"}},
		"tcp":               {spec: start("tcp"), wantReason: "HandshakeFailed", want: []string{"only unix sockets"}},
		"dead socket":       {spec: start("dead-socket"), wantReason: "HandshakeFailed", want: []string{"no connection"}},
		"hangs":             {spec: hanging("hang"), wantReason: "StartTimeout", want: []string{"within 1s", "a lock that never comes", "raise its start timeout"}},
		"hangs, child":      {spec: hanging("hang-with-child"), wantReason: "StartTimeout"},
		"lister hangs":      {spec: hanging("lister-hang"), wantReason: "StartTimeout"},
		"lister exits":      {spec: start("lister-exit"), wantReason: "ExitedAtOnce", want: []string{"exit code 5"}},
		"lister fails":      {spec: start("lister-error"), wantReason: "ListFailed", want: []string{"did not list its actions"}},
		"bad name":          {spec: start("lister-bad-name"), wantReason: "InvalidRegistration", want: []string{`"Not A/Name"`, `use one like`}},
		"same name twice":   {spec: start("lister-duplicate"), wantReason: "InvalidRegistration", want: []string{"PreBackupAction(a.io/b)", "twice"}},
		"only newer":        {spec: start("lister-newer"), wantReason: "NotAdaptable", want: []string{"PreBackupAction a.io/b is offered in v9 only, this Grapnel calls v1", "upgrade Grapnel"}},
		"no actions":        {spec: start("lister-empty"), wantReason: "InvalidRegistration", want: []string{"provides no actions"}},
		"no lister":         {spec: start("no-lister"), wantReason: "NotAGrapnelPlugin", want: []string{"neither one of Grapnel nor one of Velero", "Grapnel's SDK"}},
		"SDK, bad name":     {spec: fault("p", map[string]string{"FAULT_ACTIONS": "PreBackupAction:a/b/c"}), wantReason: "ExitedAtOnce"},
	} {
		t.Run(name, func(t *testing.T) {
			texts := map[string]bool{}
			for range 2 {
				_, err := c.Load(t.Context(), tc.spec)
				var load *catalog.LoadError
				if !errors.As(err, &load) {
					t.Fatalf("error is %v, want a *LoadError", err)
				}
				if load.Reason != tc.wantReason {
					t.Errorf("reason is %s, want %s (%s)", load.Reason, tc.wantReason, load.Message)
				}
				for _, part := range tc.want {
					if !strings.Contains(load.Message, part) {
						t.Errorf("message %q lacks %q", load.Message, part)
					}
				}
				checkNoSecret(t, "the message", load.Message)
				if load.Message != executor.OneLine(load.Message) {
					t.Errorf("message is not one line: %q", load.Message)
				}
				texts[load.Message] = true
			}
			// A child that listens hangs after or before logging something: it times out in
			// both cases. The log contains the number of a grandchild.
			if name != "hangs, child" && name != "lister hangs" && len(texts) != 1 {
				t.Errorf("the message is not always the same: %v", texts)
			}
			if left := append(plugintesting.ListChildren(plugins), plugintesting.FindProcesses("sleep 31536000")...); len(left) > 0 {
				t.Errorf("processes left behind: %q", left)
			}
		})
	}
}

func TestLoad_SameSpec(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	first := load(t, c, fault("p", nil))
	before := plugintesting.ListChildren(plugins)
	second := load(t, c, fault("p", nil))
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("info changed (-first +second):\n%s", diff)
	}
	want := []catalog.Action{
		{Kind: "PostBackupAction", Version: "v1", Name: "fault.example.io/fault"},
		{Kind: "PreBackupAction", Version: "v1", Name: "fault.example.io/fault"},
	}
	if diff := cmp.Diff(want, first.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if len(first.Digest) != 64 || first.SDKVersion == "" {
		t.Errorf("digest %q, SDK version %q", first.Digest, first.SDKVersion)
	}
	if diff := cmp.Diff(before, plugintesting.ListChildren(plugins)); diff != "" || len(before) != 1 {
		t.Errorf("the process was restarted (-before +after):\n%s", diff)
	}
}

func TestLoad_DuplicateAction(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	load(t, c, fault("first", nil))
	_, err := c.Load(t.Context(), fault("second", nil))
	var dup *catalog.LoadError
	if !errors.As(err, &dup) || dup.Reason != catalog.ReasonDuplicateAction {
		t.Fatalf("error is %v, want DuplicateAction", err)
	}
	for _, part := range []string{`"first"`, `"second"`, "PostBackupAction(fault.example.io/fault)"} {
		if !strings.Contains(dup.Message, part) {
			t.Errorf("message %q lacks %q", dup.Message, part)
		}
	}
	if _, err := execute(t, c, "first", preBackup("k", nil), nil); err != nil {
		t.Errorf("the first plugin no longer works: %v", err)
	}
	c.Unload(t.Context(), "first")
	load(t, c, fault("second", nil))
}

func TestLoad_ReplaceAndDrain(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	binary := filepath.Join(t.TempDir(), "plugin")
	copyPlugin(t, "faultplugin", binary)
	calls := filepath.Join(t.TempDir(), "calls")
	spec := fault("p", map[string]string{"FAULT_CALL_LOG": calls})
	spec.Process.Path = binary
	old := load(t, c, spec)

	type result struct {
		answer executor.Answer
		err    error
	}
	slow, barrier := make(chan result, 1), filepath.Join(t.TempDir(), "barrier")
	go func() {
		answer, err := execute(t, c, "p", preBackup("slow", map[string]string{"fault": "until:" + barrier}), nil)
		slow <- result{answer, err}
	}()
	plugintesting.WaitForFile(t, calls)

	// The binary changed and provides other actions.
	copyPlugin(t, "exampleplugin", binary)
	next := load(t, c, spec)
	freeze := catalog.Action{Kind: "PreBackupAction", Version: "v1", Name: "example.io/freeze"}
	if old.Digest == next.Digest || !slices.Contains(next.Actions, freeze) {
		t.Errorf("the new binary was not loaded: %+v", next)
	}
	call := preBackup("new", nil)
	call.Action = "example.io/freeze"
	if _, err := execute(t, c, "p", call, nil); err != nil {
		t.Errorf("the new process does not respond: %v", err)
	}
	select {
	case r := <-slow:
		t.Fatalf("the open call ended too early: %v", r.err)
	default:
	}
	writeFile(t, barrier, "", 0o600)
	if r := <-slow; r.err != nil {
		t.Errorf("the call that was open during the replacement failed: %v", r.err)
	}
	if _, err := c.Executor("p", "PreBackupAction", "fault.example.io/fault"); err == nil {
		t.Error("a removed action is still offered")
	}
}

// TestLoad_OpenOperationsPostponeReplacement changes the binary of a process with open operations.
func TestLoad_OpenOperationsPostponeReplacement(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	binary := filepath.Join(t.TempDir(), "plugin")
	copyPlugin(t, "faultplugin", binary)
	spec := fault("p", nil)
	spec.Process.Path = binary
	old := load(t, c, spec)
	before := plugintesting.ListChildren(plugins)

	copyPlugin(t, "exampleplugin", binary)
	spec.HasOpenOperations = true
	kept := load(t, c, spec)
	if !kept.ReplacementPostponed || kept.Digest != old.Digest {
		t.Errorf("the busy process was replaced: %+v", kept)
	}
	if diff := cmp.Diff(before, plugintesting.ListChildren(plugins)); diff != "" {
		t.Errorf("the process changed (-before +after):\n%s", diff)
	}
	spec.HasOpenOperations = false
	if next := load(t, c, spec); next.ReplacementPostponed || next.Digest == old.Digest {
		t.Errorf("the process was not replaced when it was idle: %+v", next)
	}
}

func TestLoad_FailedReplacement(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	load(t, c, fault("p", nil))
	if _, err := c.Load(t.Context(), fault("p", map[string]string{"FAULT_START": "exit"})); err == nil {
		t.Fatal("a plugin that exits was loaded")
	}
	if _, err := execute(t, c, "p", preBackup("k", nil), nil); err != nil {
		t.Errorf("the old process is out of service: %v", err)
	}
}

func TestUnload(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	load(t, c, fault("p", nil))
	e, err := c.Executor("p", "PreBackupAction", "fault.example.io/fault")
	if err != nil {
		t.Fatal(err)
	}
	c.Unload(t.Context(), "p")
	c.Unload(t.Context(), "p")
	if _, err := e.Execute(t.Context(), preBackup("k", nil)); executor.ErrorKindOf(err) != executor.Unreachable {
		t.Errorf("error after Unload is %v, want Unreachable", err)
	}
	if _, err := c.Executor("p", "PreBackupAction", "fault.example.io/fault"); err == nil {
		t.Error("Executor works after Unload")
	}
}

func TestClose_CutsOffOpenCalls(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	calls := filepath.Join(t.TempDir(), "calls")
	load(t, c, fault("p", map[string]string{"FAULT_CALL_LOG": calls}))
	failed := make(chan error, 1)
	go func() {
		_, err := execute(t, c, "p", preBackup("k", map[string]string{"fault": "hang"}), nil)
		failed <- err
	}()
	plugintesting.WaitForFile(t, calls)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Close(ctx)
	if err := <-failed; executor.ErrorKindOf(err) != executor.Unreachable {
		t.Errorf("error of the open call is %v, want Unreachable", err)
	}
	var closed *catalog.LoadError
	if _, err := c.Load(t.Context(), fault("p", nil)); !errors.As(err, &closed) || closed.Reason != catalog.ReasonClosed {
		t.Errorf("Load after Close: %v", err)
	}
}

func TestLoad_Interrupted(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var load *catalog.LoadError
	if _, err := c.Load(ctx, fault("p", map[string]string{"FAULT_START": "hang"})); !errors.As(err, &load) || load.Reason != "Interrupted" {
		t.Errorf("error is %v, want Interrupted", err)
	}
}

func TestLoad_ConcurrentUnload(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		name := []string{"a", "b"}[i%2]
		wg.Go(func() {
			spec := fault(name, map[string]string{"FAULT_ACTIONS": "PreBackupAction:fault.example.io/" + name})
			if _, err := c.Load(t.Context(), spec); err != nil && !strings.Contains(err.Error(), "removed while") {
				t.Errorf("Load %s: %v", name, err)
			}
			if i >= 6 {
				c.Unload(t.Context(), name)
			}
		})
	}
	wg.Wait()
	load(t, c, fault("a", nil))
}
