// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/plugintest"
)

func TestContract(t *testing.T) {
	// Without its own directory, the plugin uses the directory for temporary files.
	t.Setenv("TMPDIR", t.TempDir())
	for name, dir := range map[string]string{"in memory": "", "with a directory": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			c := newCopies(dir)
			write(t, c.data, "shop/data-web-0/file")
			t.Cleanup(c.transfers.Wait)
			server := newServerWithDeps(dir, c, clientIs(fakeClient()))
			plugintest.CheckContract(t, plugintest.Start(t, server), plugintest.Contract{
				// Most samples do not have the labels that the actions select.
				Objects: func(plugintest.Action) []*unstructured.Unstructured { return labelledSamples() },
				// The ObjectStore needs the path of its directory.
				Store: func(plugintest.Action) map[string]string {
					return map[string]string{"bucket": "backups", "directory": t.TempDir()}
				},
			})
		})
	}
}

// request returns a request of one run with parameters given as "key=value".
func request(key string, parameters ...string) *hook.Request {
	req := plugintest.NewRequest()
	req.IdempotencyKey = key
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		req.Parameters[name] = value
	}
	return req
}

func files(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestFreezeAndThaw(t *testing.T) {
	dir := t.TempDir()
	p := plugintest.Start(t, newServer(dir))
	frozen, err := p.PreBackup(t.Context(), nameFreeze, request("run-1", "replicas=3"))
	if err != nil {
		t.Fatal(err)
	}
	if frozen.Outputs[outputMarker] != "run-1" || frozen.Outputs[outputReplicas] != "3" {
		t.Errorf("outputs are %v", frozen.Outputs)
	}
	if _, err := p.PreBackup(t.Context(), nameFreeze, request("run-1", "replicas=3")); err != nil {
		t.Errorf("second attempt: %v", err)
	}
	if n := files(t, dir); n != 1 {
		t.Errorf("%d marker files after two attempts of one run, want 1", n)
	}
	post := request("run-2")
	post.Outputs[nameFreeze] = frozen.Outputs
	if _, err := p.PostBackup(t.Context(), nameFreeze, post); err != nil {
		t.Fatal(err)
	}
	if n := files(t, dir); n != 0 {
		t.Errorf("%d marker files after the clean-up, want 0", n)
	}
	if lines := strings.Join(p.LogLines("run-2"), "\n"); !strings.Contains(lines, `"marker":"run-1","replicas":"3"`) {
		t.Errorf("the log does not say what was thawed: %s", lines)
	}
}

// restoreRequest is request for a Restore.
func restoreRequest(key string, parameters ...string) *hook.Request {
	req, restore := request(key, parameters...), plugintest.NewRestoreRequest()
	req.Backup, req.Restore = hook.Backup{}, restore.Restore
	return req
}

func TestFreezeAndThaw_Restore(t *testing.T) {
	dir := t.TempDir()
	p := plugintest.Start(t, newServer(dir))
	backedUp, err := p.PreBackup(t.Context(), nameFreeze, request("backup-pre", "replicas=3"))
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]map[string]string{nameFreeze: backedUp.Outputs}

	pre := restoreRequest("restore-pre", "replicas=7")
	pre.BackupOutputs = kept
	for range 2 {
		frozen, err := p.PreRestore(t.Context(), nameFreeze, pre)
		if err != nil {
			t.Fatal(err)
		}
		if frozen.Outputs[outputMarker] != "restore-pre" || frozen.Outputs[outputReplicas] != "3" {
			t.Errorf("outputs are %v, want the replicas stored with the backup", frozen.Outputs)
		}
		if want := "froze namespaces shop-restored"; frozen.Message != want {
			t.Errorf("message is %q, want %q", frozen.Message, want)
		}
	}
	if n := files(t, dir); n != 2 {
		t.Errorf("%d marker files, want one of the backup and one of the restore", n)
	}

	// Freeze may have failed: the clean-up gets no outputs.
	post := restoreRequest("restore-post")
	post.BackupOutputs = kept
	thawed, err := p.PostRestore(t.Context(), nameFreeze, post)
	if err != nil {
		t.Fatal(err)
	}
	if want := "thawed after a restore that ended as Completed, replicas before the backup: 3"; thawed.Message != want {
		t.Errorf("message is %q, want %q", thawed.Message, want)
	}
	if n := files(t, dir); n != 1 {
		t.Errorf("%d marker files after the clean-up, want the one of the backup", n)
	}
}

func TestFreeze_RestoreReplicas(t *testing.T) {
	p := plugintest.Start(t, newServer(""))
	for name, tc := range map[string]struct {
		kept, parameter string
		want, wantErr   string
	}{
		"of the backup":                {kept: "0", parameter: "7", want: "0"},
		"a backup without this plugin": {parameter: "7", want: "7"},
		"unknown":                      {want: "1"},
		"a backup that was changed":    {kept: "3; rm -rf /", parameter: "7", wantErr: "stored with the backup must be a number"},
		"invalid parameter":            {parameter: "-1", wantErr: "the parameter replicas must be a number"},
	} {
		t.Run(name, func(t *testing.T) {
			req := restoreRequest("r-"+name, "replicas="+tc.parameter)
			req.BackupOutputs[nameFreeze] = map[string]string{outputReplicas: tc.kept}
			resp, err := p.PreRestore(t.Context(), nameFreeze, req)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := resp.Outputs[outputReplicas]; got != tc.want {
				t.Errorf("replicas are %q, want %q", got, tc.want)
			}
		})
	}
}

func TestApplyDemoParameters(t *testing.T) {
	p := plugintest.Start(t, newServer(""))
	for name, tc := range map[string]struct {
		parameters []string
		wantErr    string
		wantAgain  time.Duration
	}{
		"nothing":        {},
		"short sleep":    {parameters: []string{"sleep=1ms"}},
		"fail":           {parameters: []string{"fail=no disk"}, wantErr: "no disk"},
		"again":          {parameters: []string{"again=1"}, wantAgain: time.Second},
		"sleep unparsed": {parameters: []string{"sleep=long"}, wantErr: "not a duration"},
		"again unparsed": {parameters: []string{"again=x"}, wantErr: "not a number"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := p.PostBackup(t.Context(), nameNotify, request("p-"+name, tc.parameters...))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if resp.Again != tc.wantAgain {
				t.Errorf("Again is %s, want %s", resp.Again, tc.wantAgain)
			}
		})
	}
}

func TestApplyDemoParameters_RepeatedCalls(t *testing.T) {
	p := plugintest.Start(t, newServer(t.TempDir()))
	for call := 1; call <= 3; call++ {
		resp, err := p.PostBackup(t.Context(), nameNotify, request("run", "again=2"))
		if err != nil {
			t.Fatal(err)
		}
		if done := resp.Again == 0; done != (call == 3) {
			t.Errorf("call %d: done is %v", call, done)
		}
	}
}
