// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/velero"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// plugin records the Backup that its action gets.
type plugin struct {
	pluginclient.BackupItemAction
	told string
	call pluginclient.ItemCall
}

func (p *plugin) Begin(context.Context, host.Call) (host.OpenCall, error) {
	return plugintesting.Call{CallID: "call"}, nil
}

func (p *plugin) AppliesTo(context.Context, pluginclient.ItemCall) (item.Selector, error) {
	return item.Selector{}, nil
}

func (p *plugin) Execute(
	_ context.Context, call pluginclient.ItemCall, _, backup []byte,
) (pluginclient.BackupItemAnswer, error) {
	p.call, p.told = call, string(backup)
	return pluginclient.BackupItemAnswer{}, nil
}

// noResources is a cluster without resources.
type noResources struct{}

func (noResources) Resolve(string) (schema.GroupResource, bool) { return schema.GroupResource{}, false }

// TestNewItemActions_VeleroBackup: plugins decode it as velero.io/v1.
func TestNewItemActions_VeleroBackup(t *testing.T) {
	t.Parallel()
	p, e := &plugin{}, &engine{}
	j, store := worker(t, t.TempDir(), e), open(memory.New())
	req := request(func(r *backup.Request) {
		r.Spec = json.RawMessage(`{"includedNamespaces":["shop"],"ttl":"720h0m0s","parameters":{"another":{"password":"hunter2"}}}`)
		r.ItemActions = []pluginclient.BackupItemActionSpec{{
			Name: "example.io/annotate", Plugin: "demo", Parameters: map[string]string{"color": "red"},
			Resolve: func() (pluginclient.Connection, pluginclient.BackupItemAction, error) { return p, p, nil },
		}}
	})
	if err := j.Claim(t.Context(), store, req); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Archive(t.Context(), store, req); err != nil {
		t.Fatal(err)
	}
	action, ok := e.got.Actions[0].(itemaction.BackupPluginAction)
	if !ok || len(e.got.Actions) != 1 {
		t.Fatalf("the engine got actions %v", e.got.Actions)
	}
	if err := action.ResolveSelector(t.Context(), noResources{}); err != nil {
		t.Fatal(err)
	}
	if _, err := action.Execute(t.Context(), itemaction.BackupItem{JSON: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	want := `{
		"apiVersion": "velero.io/v1", "kind": "Backup",
		"metadata": {
			"name": "nightly", "namespace": "grapnel-system", "uid": "u-1", "creationTimestamp": "2026-11-21T04:00:00Z",
			"labels": {"team": "shop", "velero.io/storage-location": "main"},
			"annotations": {"why": "because", "velero.io/resource-timeout": "10m0s"}
		},
		"spec": {"includedNamespaces": ["shop"], "ttl": "720h0m0s", "storageLocation": "main", "itemOperationTimeout": "4h0m0s"},
		"status": {"version": 1, "formatVersion": "1.1.0", "phase": "InProgress", "startTimestamp": "2026-11-21T04:00:00Z"}
	}`
	if diff := cmp.Diff(decode(t, want), decode(t, p.told)); diff != "" {
		t.Errorf("the Backup that the action sees (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pluginclient.ItemCall{
		Action: "example.io/annotate", CallID: "call", Key: "u-1", Parameters: map[string]string{"color": "red"},
	}, p.call); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
}

// TestFinalize_ItemActions: as in Velero, they see from the phase that operations have
// ended. Actions that can only start operations are not called.
func TestFinalize_ItemActions(t *testing.T) {
	t.Parallel()
	for want, ended := range map[string]velero.OperationPhase{
		"Finalizing": velero.OperationCompleted, "FinalizingPartiallyFailed": velero.OperationFailed,
	} {
		p, o, objects := &plugin{}, &operator{}, memory.New()
		j := waiting(t, objects, o)
		resolve := func() (pluginclient.Connection, pluginclient.BackupItemAction, error) { return p, p, nil }
		req := withOperations(func(r *backup.Request) {
			r.ItemActions = []pluginclient.BackupItemActionSpec{
				{Name: "example.io/mark", Kind: "BackupItemAction", Plugin: "demo", Resolve: resolve},
				{Name: "example.io/copy", Kind: "AsyncBackupItemAction", Plugin: "demo", Resolve: resolve},
			}
		})
		operations := []velero.Operation{copied("a", velero.OperationCompleted, "c"), copied("b", ended)}
		if _, err := j.Finalize(t.Context(), open(objects), req, operations); err != nil {
			t.Fatal(err)
		}
		if len(o.got.Actions) != 1 || o.got.Actions[0].Name() != "example.io/mark" {
			t.Fatalf("the engine got actions %v", o.got.Actions)
		}
		if _, err := o.got.Actions[0].Execute(t.Context(), itemaction.BackupItem{JSON: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.told, `"phase":"`+want+`"`) {
			t.Errorf("the Backup that the action sees is %s, want phase %s", p.told, want)
		}
	}
}

func TestArchive_ActionReports(t *testing.T) {
	t.Parallel()
	objects := memory.New()
	store := open(objects)
	j := worker(t, t.TempDir(), &engine{
		labels:  map[string]string{"tier": "gold", "team": "office", "day": "7"},
		actions: map[string][]string{"pods": {"grapnel.dev/pod", "example.io/annotate"}},
	})
	req := request(func(r *backup.Request) {
		r.Object = json.RawMessage(`{"kind":"Backup","metadata":{"generation":9007199254740993,"labels":{"team":"shop"},"name":"nightly"}}`)
	})
	if err := j.Claim(t.Context(), store, req); err != nil {
		t.Fatal(err)
	}
	result, err := j.Archive(t.Context(), store, req)
	if err != nil {
		t.Fatal(err)
	}
	added := map[string]string{"tier": "gold", "day": "7"}
	if diff := cmp.Diff(added, result.Labels); diff != "" || result.Warnings != 1 {
		t.Errorf("%d warnings, labels of the result (-want +got):\n%s", result.Warnings, diff)
	}
	var manifest struct {
		Metadata struct{ Labels map[string]string }
	}
	if err := json.Unmarshal([]byte(content(t, objects, "velero-backup.json")), &manifest); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"team": "shop", "velero.io/storage-location": "main", "tier": "gold", "day": "7"}
	if diff := cmp.Diff(want, manifest.Metadata.Labels); diff != "" {
		t.Errorf("labels in velero-backup.json (-want +got):\n%s", diff)
	}
	_, grapnel, err := store.ReadManifest(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	const object = `{"kind":"Backup","metadata":{"generation":9007199254740993,"labels":{"day":"7","team":"shop","tier":"gold"},"name":"nightly"}}`
	var stored json.RawMessage
	if err := json.Unmarshal(grapnel.Backup, &stored); err != nil || !cmp.Equal(decode(t, object), decode(t, string(stored))) {
		t.Errorf("the Backup for other clusters is %s", stored)
	}
	results := `{"warnings":{"velero":["The Backup keeps its own label team=shop: an item action requested the value \"office\""]},"errors":{},` +
		`"actions":{"pods":["grapnel.dev/pod","example.io/annotate"]}}`
	if diff := cmp.Diff(decode(t, results), veleroPart(decode(t, unzipped(t, objects, "nightly-results.gz")))); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	again, err := worker(t, t.TempDir(), &engine{}).FindCommitted(t.Context(), store, req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(added, again.Labels); diff != "" {
		t.Errorf("labels after a restart of the operator (-want +got):\n%s", diff)
	}
}
