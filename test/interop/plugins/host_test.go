// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	pluginhost "github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
)

const (
	// pluginObject is the name of the Plugin.
	pluginObject = "velero"
	// runKey is the UID of the run that calls belong to.
	runKey = "0b0e2a7c-9f1d-4c0e-8f5e-2f6f8b9d7a11"
	// safety bounds what a test waits for; it is never reached when things work.
	safety = 30 * time.Second
)

// host is Grapnel with one plugin.
type host struct {
	t       *testing.T
	catalog *catalog.Catalog
	info    catalog.Info
	// log is that of the run, operator that of the operator.
	log, operator *plugintesting.Log
	// exits counts the processes that ended by themselves.
	exits atomic.Int32
}

// newHost returns a host that ends with the test.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, log: plugintesting.NewLog(t), operator: plugintesting.NewLog(t)}
	h.catalog = catalog.New(catalog.Options{
		Logger: h.operator.Logger(), LogLevel: "debug", OnExit: func(string) { h.exits.Add(1) },
		Features: []string{"EnableCSI"}, Env: map[string]string{"VELERO_NAMESPACE": "grapnel-system"},
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), safety)
		defer cancel()
		h.catalog.Close(ctx)
		if t.Failed() {
			t.Logf("log of the run:\n%s\nlog of the operator:\n%s", h.log.Text(), h.operator.Text())
		}
	})
	return h
}

// load starts the plugin that is built with a release of Velero.
func (h *host) load(release string, env map[string]string) error {
	var err error
	h.info, err = h.catalog.Load(h.t.Context(), catalog.Spec{
		Name: pluginObject, Process: catalog.ProcessSpec{Path: filepath.Join(programs, release), Env: env},
	})
	return err
}

// loaded returns a host with a plugin that is loaded.
func loaded(t *testing.T, release string) *host {
	t.Helper()
	h := newHost(t)
	if err := h.load(release, nil); err != nil {
		t.Fatalf("loading the plugin: %v", err)
	}
	return h
}

// target is an action of the plugin and the log that a call has.
type target[A any] struct {
	resolve pluginclient.ResolveFunc[A]
	name    string
	log     logr.Logger
}

func (h *host) backup(name string) target[pluginclient.BackupItemAction] {
	return target[pluginclient.BackupItemAction]{h.catalog.BackupItemAction(pluginObject, "", name), name, h.log.Logger()}
}

func (h *host) restore(name string) target[pluginclient.RestoreItemAction] {
	return target[pluginclient.RestoreItemAction]{h.catalog.RestoreItemAction(pluginObject, "", name), name, h.log.Logger()}
}

func (h *host) delete(name string) target[pluginclient.DeleteItemAction] {
	return target[pluginclient.DeleteItemAction]{h.catalog.DeleteItemAction(pluginObject, name), name, h.log.Logger()}
}

// ask makes one call as the engines do. Its error is a *pluginclient.CallError.
func ask[A, R any](
	ctx context.Context, h *host, to target[A], method func(ctx context.Context, action A, on pluginclient.ItemCall) (R, error),
) (answer R, err error) {
	call, err := pluginclient.NewCaller(to.resolve, h.catalog.Redactor()).Begin(ctx, pluginhost.Call{Key: runKey, Log: to.log})
	if err != nil {
		return answer, err
	}
	defer call.End(&err)
	return method(ctx, call.Action, pluginclient.ItemCall{Conn: call.Conn(), Action: to.name, CallID: call.ID(), Key: runKey})
}

// archive shows an object to an action of a backup.
func (h *host) archive(ctx context.Context, name string, object *unstructured.Unstructured) (pluginclient.BackupItemAnswer, error) {
	return ask(ctx, h, h.backup(name), func(ctx context.Context, action pluginclient.BackupItemAction, on pluginclient.ItemCall) (pluginclient.BackupItemAnswer, error) {
		return action.Execute(ctx, on, encode(h.t, object), encode(h.t, veleroBackup()))
	})
}

// bring shows an object to an action of a restore.
func (h *host) bring(ctx context.Context, name string, object *unstructured.Unstructured) (pluginclient.RestoreItemAnswer, error) {
	shown := pluginclient.RestoreItem{
		Object: encode(h.t, object), Archived: encode(h.t, archived()), Restore: encode(h.t, veleroRestore()),
	}
	return ask(ctx, h, h.restore(name), func(ctx context.Context, action pluginclient.RestoreItemAction, on pluginclient.ItemCall) (pluginclient.RestoreItemAnswer, error) {
		return action.Execute(ctx, on, shown)
	})
}

// remove shows an object to an action of a deletion.
func (h *host) remove(ctx context.Context, name string, object *unstructured.Unstructured) error {
	_, err := ask(ctx, h, h.delete(name), func(ctx context.Context, action pluginclient.DeleteItemAction, on pluginclient.ItemCall) (struct{}, error) {
		return struct{}{}, action.Execute(ctx, on, encode(h.t, object), encode(h.t, veleroBackup()))
	})
	return err
}
