// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/redact"
	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// pluginEnv makes this program run as a plugin.
const pluginEnv = "BACKUP_TEST_PLUGIN"

// servePlugin is the whole plugin.
func servePlugin() {
	serve.New().
		RegisterBackupItemActionV1("example.io/mark", func() (backupitemv1.BackupItemAction, error) { return marker{}, nil }).
		RegisterBackupItemActionV2("example.io/start", func() (backupitemv2.BackupItemAction, error) { return starter{}, nil }).
		RegisterBackupItemActionV1("example.io/nothing", func() (backupitemv1.BackupItemAction, error) { return nothing{}, nil }).
		Serve()
}

// marker annotates config maps, fails for one, and adds a volume.
type marker struct{}

func (marker) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"configmap"}, IncludedNamespaces: []string{"sh*"}}, nil
}

func (marker) Execute(_ context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
	if req.Item.GetName() == "b" {
		return nil, errors.New("I do not like b")
	}
	if req.Backup.Name != "nightly" {
		return nil, errors.New("this is the Backup " + req.Backup.Name)
	}
	req.Item.SetAnnotations(map[string]string{"marked": "yes"})
	return &item.BackupResponse{
		Item:            req.Item,
		AdditionalItems: []item.Ref{{Resource: "persistentvolumes", Name: "pv-2"}, {Resource: "persistentvolumes", Name: "nope"}},
		BackupLabels:    map[string]string{"marked": "true"},
	}, nil
}

// starter starts an operation on each config map that was marked.
type starter struct{}

func (starter) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"configmaps"}, LabelSelector: "app=web"}, nil
}

func (starter) Execute(_ context.Context, req *item.BackupRequest) (*backupitemv2.Response, error) {
	return &backupitemv2.Response{OperationID: "op of " + req.Item.GetName() + ", marked: " + req.Item.GetAnnotations()["marked"]}, nil
}

func (starter) Progress(context.Context, *backupitemv2.OperationRequest) (*item.Progress, error) {
	return &item.Progress{Completed: true}, nil
}

func (starter) Cancel(context.Context, *backupitemv2.OperationRequest) error { return nil }

// nothing does nothing.
type nothing struct{}

func (nothing) AppliesTo(context.Context) (item.Selector, error) { return item.Selector{}, nil }

func (nothing) Execute(_ context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
	return &item.BackupResponse{Item: req.Item}, nil
}

// processActions starts the plugin and returns its actions for one run.
func processActions(tb testing.TB, names ...string) []itemaction.BackupAction {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	plugins := catalog.New(catalog.Options{Logger: logr.Discard(), Redactor: redact.New(), LogLevel: "info"})
	tb.Cleanup(func() { plugins.Close(context.WithoutCancel(tb.Context())) })
	_, err = plugins.Load(tb.Context(), catalog.Spec{Name: "demo", Process: catalog.ProcessSpec{Path: self, Env: map[string]string{pluginEnv: "1"}}})
	if err != nil {
		tb.Fatal(err)
	}
	backup := []byte(`{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"nightly","namespace":"grapnel-system","uid":"u-1"},"spec":{}}`)
	var out []itemaction.BackupAction
	for _, name := range names {
		spec := pluginclient.BackupItemActionSpec{Name: name, Plugin: "demo", Resolve: plugins.BackupItemAction("demo", "", name)}
		out = append(out, pluginclient.NewBackupItemAction(spec, pluginclient.BackupRun{Key: "u-1", Backup: backup}, plugins.Redactor()))
	}
	return out
}

// TestWriteArchive_PluginProcess is a backup with a real plugin process.
func TestWriteArchive_PluginProcess(t *testing.T) {
	var out bytes.Buffer
	req := shop(processActions(t, "example.io/mark", "example.io/start")...)
	req.OnOperationStarted = func(context.Context, itemaction.Operation) error { return nil }
	result, err := New(testCluster().cluster(t), Options{}).WriteArchive(t.Context(), req, &out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = archive.Walk(&out, archive.Limits{}, func(e archive.Entry) error {
		if !e.IsObject() || e.Object.Version == "" {
			return nil
		}
		got = append(got, shortPath(e.Object))
		if marked := strings.Contains(string(e.Content), `"annotations":{"marked":"yes"}`); marked != (e.Object.Resource == "configmaps") {
			t.Errorf("%s is marked: %t: %s", shortPath(e.Object), marked, e.Content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"configmaps shop/a", "configmaps shop/c", "namespaces /shop", "persistentvolumes /pv-2"},
		slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"marked": "true"}, result.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if len(result.Operations) != 1 || result.Operations[0].ID != "op of a, marked: yes" || result.Operations[0].Plugin != "demo" {
		t.Errorf("operations %+v", result.Operations)
	}
	wantErrors := []string{`configmaps "shop/b" is missing from this backup: item action example.io/mark: plugin "demo": I do not like b`}
	if diff := cmp.Diff(wantErrors, result.Results.Errors.OfNamespace("shop")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if w := result.Results.Warnings.OfCluster(); len(w) != 1 || !strings.HasPrefix(w[0], `persistentvolumes "nope", which configmaps shop/`) {
		t.Errorf("warnings %q do not name the volume that is missing", w)
	}
}

// BenchmarkItemActionOfAProcess measures the cost of an action in another process that does
// nothing, with the default number of workers.
func BenchmarkItemActionOfAProcess(b *testing.B) {
	const perBatch = 128
	c, items := benchCollection(b, perBatch, processActions(b, "example.io/nothing"))
	for i := range items { // about the size of an object
		items[i].JSON = bytes.Replace(items[i].JSON, []byte(`{"apiVersion"`), []byte(`{"data":{"x":"`+strings.Repeat("x", 2000)+`"},"apiVersion"`), 1)
	}
	for b.Loop() {
		batch := rawclient.NewBatch(items...)
		if err := c.runActions(b.Context(), batch); err != nil || len(batch.Items) != perBatch {
			b.Fatalf("%d items, %v", len(batch.Items), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*perBatch), "ns/item")
}
