// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

const itemRestoreSubject = `{"apiVersion":"velero.io/v1","kind":"Restore","metadata":{"name":"again"},"spec":{"backupName":"nightly"}}`

// loadAsync loads the plugin of asyncplugin_test.go.
func loadAsync(t *testing.T) (*catalog.Catalog, catalog.Info) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := newCatalog(t, catalog.Options{})
	return c, load(t, c, catalog.Spec{Name: "p", Process: catalog.ProcessSpec{
		Path: self, Env: map[string]string{"CATALOG_TEST_ASYNC": "1"}, StartTimeout: safety,
	}})
}

// askOf makes one call to an action.
func askOf[A any](
	t *testing.T, resolve pluginclient.ResolveFunc[A], log logr.Logger, c *catalog.Catalog,
	fn func(ctx context.Context, call pluginclient.ItemCall, action A) error,
) error {
	t.Helper()
	open, err := pluginclient.NewCaller(resolve, c.Redactor()).Begin(t.Context(), host.Call{Key: "run", Log: log})
	if err != nil {
		return err
	}
	err = fn(t.Context(), pluginclient.ItemCall{
		Conn: open.Conn(), Action: asyncAction, CallID: open.ID(), Key: "run", Parameters: map[string]string{"size": "groß"},
	}, open.Action)
	open.End(&err)
	return err
}

// asyncKind is a kind of the plugin in the form that callers of operations use.
type asyncKind struct {
	start    func(t *testing.T, object string, log logr.Logger) (id string, every time.Duration, err error)
	progress func(t *testing.T, id string) (item.Progress, error)
	cancel   func(t *testing.T, id string) error
}

// operationsOf are the two methods that all kinds share.
func operationsOf[A pluginclient.Operations](c *catalog.Catalog, resolve pluginclient.ResolveFunc[A], subject string) asyncKind {
	operation := func(id string) pluginclient.OperationRef {
		return pluginclient.OperationRef{OperationID: id, Parent: []byte(subject)}
	}
	return asyncKind{
		progress: func(t *testing.T, id string) (got item.Progress, err error) {
			t.Helper()
			err = askOf(t, resolve, logr.Discard(), c, func(ctx context.Context, call pluginclient.ItemCall, action A) error {
				got, err = action.Progress(ctx, call, operation(id))
				return err
			})
			return got, err
		},
		cancel: func(t *testing.T, id string) error {
			t.Helper()
			return askOf(t, resolve, logr.Discard(), c, func(ctx context.Context, call pluginclient.ItemCall, action A) error {
				return action.Cancel(ctx, call, operation(id))
			})
		},
	}
}

func objectNamed(name string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q}}`, name)
}

func backupKind(c *catalog.Catalog, kind string) asyncKind {
	resolve := c.BackupItemAction("p", kind, asyncAction)
	all := operationsOf(c, resolve, subject)
	all.start = func(t *testing.T, object string, log logr.Logger) (string, time.Duration, error) {
		t.Helper()
		var answer pluginclient.BackupItemAnswer
		err := askOf(t, resolve, log, c, func(ctx context.Context, call pluginclient.ItemCall, action pluginclient.BackupItemAction) (err error) {
			answer, err = action.Execute(ctx, call, objectNamed(object), []byte(subject))
			return err
		})
		return answer.OperationID, answer.PollInterval, err
	}
	return all
}

func restoreKind(c *catalog.Catalog, kind string) asyncKind {
	resolve := c.RestoreItemAction("p", kind, asyncAction)
	all := operationsOf(c, resolve, itemRestoreSubject)
	all.start = func(t *testing.T, object string, log logr.Logger) (string, time.Duration, error) {
		t.Helper()
		var answer pluginclient.RestoreItemAnswer
		err := askOf(t, resolve, log, c, func(ctx context.Context, call pluginclient.ItemCall, action pluginclient.RestoreItemAction) (err error) {
			answer, err = action.Execute(ctx, call, pluginclient.RestoreItem{
				Object: objectNamed(object), Archived: objectNamed(object), Restore: []byte(itemRestoreSubject),
			})
			return err
		})
		return answer.OperationID, answer.PollInterval, err
	}
	return all
}

func TestLoad_AsyncActions(t *testing.T) {
	_, info := loadAsync(t)
	want := []catalog.Action{
		{Kind: "AsyncBackupItemAction", Version: "v1", Name: asyncAction},
		{Kind: "AsyncRestoreItemAction", Version: "v1", Name: asyncAction},
		{Kind: "BackupItemAction", Version: "v2", Name: asyncAction},
	}
	if diff := cmp.Diff(want, info.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// TestCatalog_Operations follows operations of a real process from their start to their end.
func TestCatalog_Operations(t *testing.T) {
	c, _ := loadAsync(t)
	for name, tc := range map[string]struct {
		kind      asyncKind
		id, run   string
		every     time.Duration
		cancelled item.Progress
	}{
		// An empty kind means the synchronous kind.
		"version 2": {
			kind: backupKind(c, ""), id: "v2 of web", run: "nightly", cancelled: item.Progress{Completed: true, Err: "cancelled", DataCaptured: true},
		},
		"backup": {
			kind: backupKind(c, "AsyncBackupItemAction"), id: "backup of web", run: "nightly", every: 3 * time.Second,
			cancelled: item.Progress{Completed: true, Cancelled: true},
		},
		"restore": {
			kind: restoreKind(c, "AsyncRestoreItemAction"), id: "restore of web", run: "again", every: 3 * time.Second,
			cancelled: item.Progress{Completed: true, Cancelled: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := plugintesting.NewLog(t)
			id, every, err := tc.kind.start(t, "web", log.Logger())
			if err != nil || id != tc.id || every != tc.every {
				t.Fatalf("started %q, asked every %s, error %v", id, every, err)
			}
			if text := log.Text(); !strings.Contains(text, "Starting a job") || !strings.Contains(text, "groß") {
				t.Errorf("the log of the run is %q", text)
			}
			if got, err := tc.kind.progress(t, id); err != nil || got.Completed || got.NTotal != 7 || got.Description != "for "+tc.run {
				t.Errorf("the progress is %+v, %v", got, err)
			}
			for range 2 {
				if err := tc.kind.cancel(t, id); err != nil {
					t.Errorf("Cancel: %v", err)
				}
			}
			tc.cancelled.NTotal, tc.cancelled.Description = 7, "for "+tc.run
			if got, err := tc.kind.progress(t, id); err != nil || got != tc.cancelled {
				t.Errorf("the progress after Cancel is %+v, %v, want %+v", got, err, tc.cancelled)
			}
			checkIDs(t, tc.kind)
			checkRestart(t, tc.kind, id)
		})
	}
}

// checkIDs makes calls for operations with unusual IDs.
func checkIDs(t *testing.T, kind asyncKind) {
	t.Helper()
	if id, _, err := kind.start(t, "nothing", logr.Discard()); id != "" || err != nil {
		t.Errorf("started %q, error %v, want nothing", id, err)
	}
	// Callers reject such an ID, and can cancel the operation.
	if id, _, err := kind.start(t, "long", logr.Discard()); len(id) != 1<<20 || err != nil || kind.cancel(t, id) != nil {
		t.Errorf("the ID has %d bytes, error %v, want 1 MiB that can be cancelled", len(id), err)
	}
	for _, id := range []string{"nothing known", "", strings.Repeat("y", 1<<20)} {
		_, err := kind.progress(t, id)
		for what, err := range map[string]error{"Progress": err, "Cancel": kind.cancel(t, id)} {
			if !errors.Is(err, pluginclient.ErrUnknownOperation) || kindOf(err) != executor.Failed ||
				err.Error() != "the operation is not known" {
				t.Errorf("%s of an ID of %d bytes: error is %v (%s)", what, len(id), err, kindOf(err))
			}
		}
	}
	_, err := kind.progress(t, "unreachable")
	for what, err := range map[string]error{"Progress": err, "Cancel": kind.cancel(t, "unreachable")} {
		if errors.Is(err, pluginclient.ErrUnknownOperation) || kindOf(err) != executor.Failed || err.Error() != "the job server is down" {
			t.Errorf("%s of an operation whose state is unknown now: error is %v (%s)", what, err, kindOf(err))
		}
	}
}

// checkRestart calls a new process for operations of the previous one.
func checkRestart(t *testing.T, kind asyncKind, id string) {
	t.Helper()
	if _, _, err := kind.start(t, "crash", logr.Discard()); kindOf(err) != executor.Unreachable {
		t.Errorf("error of a crash is %v (%s)", err, kindOf(err))
	}
	if got, err := kind.progress(t, "kept-1"); err != nil || got.NTotal != 7 {
		t.Errorf("an operation that outlives the process: %+v, %v", got, err)
	}
	if _, err := kind.progress(t, id); !errors.Is(err, pluginclient.ErrUnknownOperation) {
		t.Errorf("an operation that ended with its process: error is %v", err)
	}
}

// TestCatalog_WrongActionKind checks that an action of one kind is not found under another kind.
func TestCatalog_WrongActionKind(t *testing.T) {
	c, _ := loadAsync(t)
	for name, kind := range map[string]asyncKind{
		"a restore that is not registered": restoreKind(c, ""),
		"a restore by a kind of a backup":  restoreKind(c, "AsyncBackupItemAction"),
		"a backup by a kind of a restore":  backupKind(c, "AsyncRestoreItemAction"),
		"a backup by an invalid kind":      backupKind(c, "PreBackupAction"),
	} {
		_, _, err := kind.start(t, "web", logr.Discard())
		if kindOf(err) != executor.Invalid || !errors.Is(err, pluginclient.ErrNoSuchAction) {
			t.Errorf("%s: error is %v (%s)", name, err, kindOf(err))
		}
	}
}
