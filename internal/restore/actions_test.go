// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// asking is an engine that calls the actions for one object.
type asking struct{}

// RestoreObjects implements restore.ObjectRestorer.
func (asking) RestoreObjects(ctx context.Context, req restore.Request) (restore.Result, error) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"},
	}}
	var result restore.Result
	for _, action := range req.Actions {
		if _, err := action.Execute(ctx, &itemaction.RestoreItem{Object: object.DeepCopy(), Archived: object}); err != nil {
			return restore.Result{}, err
		}
		result.ActionReports = append(result.ActionReports, restore.ActionReport{Name: action.Name(), Plugin: action.Plugin(), Calls: 3, Skipped: 2, Failed: 1})
	}
	result.ResourceList = func(func(string, []string) bool) {}
	return result, nil
}

// listener is a plugin that records what it gets.
type listener struct {
	pluginclient.RestoreItemAction
	mu       sync.Mutex
	restores []string
	keys     []string
}

// Do implements pluginclient.Connection.
func (l *listener) Begin(_ context.Context, call host.Call) (host.OpenCall, error) {
	l.mu.Lock()
	l.keys = append(l.keys, call.Key)
	l.mu.Unlock()
	return plugintesting.Call{CallID: "1"}, nil
}

// Execute implements pluginclient.RestoreItemAction.
func (l *listener) Execute(_ context.Context, _ pluginclient.ItemCall, object pluginclient.RestoreItem) (pluginclient.RestoreItemAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restores = append(l.restores, string(object.Restore))
	return pluginclient.RestoreItemAnswer{RelatedItems: []item.Ref{}}, nil
}

// TestNewItemActions_VeleroRestore shows actions a restore of Velero with the user's settings, as far as Velero has a field for
// them.
func TestNewItemActions_VeleroRestore(t *testing.T) {
	for name, tc := range map[string]struct {
		spec   string
		policy restore.ExistingPolicy
		want   string
	}{
		"by the name of the backup": {
			spec: `{"backupName":"nightly","includedNamespaces":["shop"],"namespaceMapping":{"a":"b"},"includeClusterResources":null,
				"labelSelector":{"matchLabels":{"a":"b"}},"preserveNodePorts":true,"itemOperationTimeout":"1h","existingResourcePolicy":"update"}`,
			want: `{"backupName":"nightly","includedNamespaces":["shop"],"namespaceMapping":{"a":"b"},"includeClusterResources":null,
				"labelSelector":{"matchLabels":{"a":"b"}},"preserveNodePorts":true,"itemOperationTimeout":"1h","existingResourcePolicy":"update"}`,
		},
		"by a schedule": {
			spec: `{"scheduleName":"every-night"}`,
			want: `{"backupName":"nightly","scheduleName":"every-night","itemOperationTimeout":"4h0m0s"}`,
		},
		"what Velero does not know": {
			spec: `{"backupName":"nightly","parameters":{"x":{"password":"hunter2"}},"dryRun":true,"desiredState":"Run","storageLocation":"s",
				"apiVersionPriorities":"x","existingResourcePolicy":"recreate"}`,
			policy: restore.ExistingRecreate,
			want:   `{"backupName":"nightly","existingResourcePolicy":"update","itemOperationTimeout":"4h0m0s"}`,
		},
		"nothing": {want: `{"backupName":"nightly","itemOperationTimeout":"4h0m0s"}`},
	} {
		t.Run(name, func(t *testing.T) {
			var waited []time.Duration
			j := operator(t, t.TempDir(), &waited)
			j.Engine = asking{}
			l := &listener{}
			resolve := func() (pluginclient.Connection, pluginclient.RestoreItemAction, error) { return l, l, nil }
			req := request
			req.Labels, req.Annotations = map[string]string{"team": "shop"}, map[string]string{"why": "because"}
			req.Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			req.Engine.Policy = tc.policy
			req.Spec = json.RawMessage(tc.spec)
			req.ItemActions = []pluginclient.RestoreItemActionSpec{
				{Name: "example.io/a", Plugin: "p", Resolve: resolve}, {Name: "example.io/b", Plugin: "p", Resolve: resolve},
			}
			if _, err := j.Restore(t.Context(), store(t), req); err != nil {
				t.Fatal(err)
			}
			var got, want map[string]any
			if err := errors.Join(json.Unmarshal([]byte(l.restores[0]), &got), json.Unmarshal([]byte(`{
				"apiVersion":"velero.io/v1","kind":"Restore","metadata":{"name":"again","namespace":"grapnel-system","uid":"u-1",
				"labels":{"team":"shop"},"annotations":{"why":"because"},"creationTimestamp":"2026-01-02T03:04:05Z"},
				"spec":`+tc.want+`,"status":{"phase":"InProgress","startTimestamp":"2026-01-02T03:04:05Z"}}`), &want)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("restore (-want +got):\n%s", diff)
			}
			if len(l.restores) != 2 || l.restores[0] != l.restores[1] || l.keys[0] != "u-1" {
				t.Errorf("told %q with keys %q", l.restores, l.keys)
			}
			log := logOf(t, j)
			for _, action := range []string{"example.io/a", "example.io/b"} {
				if !strings.Contains(log, "action="+action+" plugin=p calls=3 skipped=2 failed=1") {
					t.Errorf("the log does not say what %s did:\n%s", action, log)
				}
			}
		})
	}
}

// TestRestore_InvalidSpec ends the restore before it begins.
func TestRestore_InvalidSpec(t *testing.T) {
	var waited []time.Duration
	j := operator(t, t.TempDir(), &waited)
	j.Engine = asking{}
	req := request
	req.Spec, req.ItemActions = json.RawMessage("{"), []pluginclient.RestoreItemActionSpec{{Name: "example.io/a"}}
	if _, err := j.Restore(t.Context(), store(t), req); err == nil || !strings.Contains(err.Error(), "describing Restore again to item actions: reading its spec") {
		t.Errorf("error %v", err)
	}
}

// store has the backup.
func store(t *testing.T) *storage.Store {
	t.Helper()
	return storage.New(storeWithBackup(t, 0, nil), "")
}

// logOf returns what was logged so far.
func logOf(t *testing.T, j *restore.Runner) string {
	t.Helper()
	log, err := j.Logs.OpenCompressed("u-1", runlog.Main)
	if err != nil || log == nil {
		t.Fatalf("no log: %v", err)
	}
	defer func() { _ = log.Close() }()
	uncompressed, err := gzip.NewReader(log)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(uncompressed)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
