// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/plugintest"
	postbackupv1 "github.com/grapnel-dev/grapnel/sdk/postbackupaction/v1"
	postrestorev1 "github.com/grapnel-dev/grapnel/sdk/postrestoreaction/v1"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	prerestorev1 "github.com/grapnel-dev/grapnel/sdk/prerestoreaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// actions are one action named "a" for each kind.
type actions map[sdk.Kind]actionFunc

func (a actions) start(t *testing.T) *plugintest.Plugin {
	t.Helper()
	return plugintest.Start(t, serve.New().
		RegisterPreBackupActionV1("a", func() (prebackupv1.PreBackupAction, error) { return a[sdk.KindPreBackupAction], nil }).
		RegisterPostBackupActionV1("a", func() (postbackupv1.PostBackupAction, error) { return a[sdk.KindPostBackupAction], nil }).
		RegisterPreRestoreActionV1("a", func() (prerestorev1.PreRestoreAction, error) { return a[sdk.KindPreRestoreAction], nil }).
		RegisterPostRestoreActionV1("a", func() (postrestorev1.PostRestoreAction, error) { return a[sdk.KindPostRestoreAction], nil }))
}

// answering returns actions that return their kind as an output and pass every request to
// seen.
func answering(seen func(kind sdk.Kind, req *hook.Request)) actions {
	all := actions{}
	for _, kind := range []sdk.Kind{
		sdk.KindPreBackupAction, sdk.KindPostBackupAction, sdk.KindPreRestoreAction, sdk.KindPostRestoreAction,
	} {
		all[kind] = func(_ context.Context, req *hook.Request) (*hook.Response, error) {
			seen(kind, req)
			return hook.Done().WithOutput("by", string(kind)), nil
		}
	}
	return all
}

func TestExecuteHookAction_RestoreRequest(t *testing.T) {
	t.Parallel()
	got := map[sdk.Kind]*hook.Request{}
	p := answering(func(kind sdk.Kind, req *hook.Request) { got[kind] = req }).start(t)
	req := plugintest.NewRestoreRequest()
	req.Parameters["p"] = "1"
	req.Outputs["pre"] = map[string]string{"o": "of this run"}
	req.BackupOutputs["pre"] = map[string]string{"o": "of the backup"}
	// The object names a schedule; only the host knows which backup that is.
	req.Restore.Raw = []byte(strings.ReplaceAll(string(req.Restore.Raw), `"backupName":"nightly"`, `"scheduleName":"every-night"`))
	for kind, call := range map[sdk.Kind]func(context.Context, string, *hook.Request) (*hook.Response, error){
		sdk.KindPreRestoreAction: p.PreRestore, sdk.KindPostRestoreAction: p.PostRestore,
	} {
		resp, err := call(t.Context(), "a", req)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if resp.Outputs["by"] != string(kind) {
			t.Errorf("%s was answered by %q", kind, resp.Outputs["by"])
		}
		want := *req
		want.Action = "a"
		if !reflect.DeepEqual(got[kind], &want) {
			t.Errorf("%s got %+v, want %+v", kind, got[kind], &want)
		}
	}
}

func TestPostBackup_RestoreFields(t *testing.T) {
	t.Parallel()
	var got *hook.Request
	p := answering(func(_ sdk.Kind, req *hook.Request) { got = req }).start(t)
	req := plugintest.NewRequest()
	req.Restore, req.BackupOutputs["a"] = plugintest.NewRestoreRequest().Restore, map[string]string{"o": "x"}
	if _, err := p.PostBackup(t.Context(), "a", req); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Restore, hook.Restore{}) || got.BackupOutputs == nil || len(got.BackupOutputs) > 0 || got.Backup.Name != "nightly" {
		t.Errorf("got %+v", got)
	}
}

func TestPreRestore_MissingRestore(t *testing.T) {
	t.Parallel()
	p := answering(func(sdk.Kind, *hook.Request) {}).start(t)
	_, err := p.PreRestore(t.Context(), "a", plugintest.NewRequest())
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "parsing the Restore object") {
		t.Errorf("error is %v, want InvalidArgument about the Restore", err)
	}
}

// TestCheckContract_Outputs shows which outputs the check gives to which kind.
func TestCheckContract_Outputs(t *testing.T) {
	t.Parallel()
	type handed struct{ Outputs, BackupOutputs string }
	var mu sync.Mutex
	got := map[sdk.Kind]map[handed]bool{}
	p := answering(func(kind sdk.Kind, req *hook.Request) {
		mu.Lock()
		defer mu.Unlock()
		if got[kind] == nil {
			got[kind] = map[handed]bool{}
		}
		got[kind][handed{req.Outputs["a"]["by"], req.BackupOutputs["a"]["by"]}] = true
	}).start(t)
	plugintest.CheckContract(t, p, plugintest.Contract{})
	const pre, preRestore = "PreBackupAction", "PreRestoreAction"
	want := map[sdk.Kind]map[handed]bool{
		sdk.KindPreBackupAction: {handed{}: true},
		// Clean-up is also called without outputs.
		sdk.KindPostBackupAction:  {handed{Outputs: pre}: true, handed{}: true},
		sdk.KindPreRestoreAction:  {handed{BackupOutputs: pre}: true},
		sdk.KindPostRestoreAction: {handed{Outputs: preRestore, BackupOutputs: pre}: true, handed{}: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got outputs %v, want %v", got, want)
	}
}

// TestCheckContract_AuthorOutputs is for plugins that read the outputs of other plugins.
func TestCheckContract_AuthorOutputs(t *testing.T) {
	t.Parallel()
	all := answering(func(sdk.Kind, *hook.Request) {})
	all[sdk.KindPreRestoreAction] = func(_ context.Context, req *hook.Request) (*hook.Response, error) {
		if req.BackupOutputs["other"]["replicas"] != "3" || req.BackupOutputs["a"]["by"] == "" {
			return nil, errors.New("the replicas are missing")
		}
		return hook.Done(), nil
	}
	plugintest.CheckContract(t, all.start(t), plugintest.Contract{Request: func(action plugintest.Action) *hook.Request {
		if !strings.Contains(string(action.Kind), "Restore") {
			return plugintest.NewRequest()
		}
		req := plugintest.NewRestoreRequest()
		req.BackupOutputs["other"] = map[string]string{"replicas": "3"}
		return req
	}})
}
