// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
)

// restoreSubject is a Restore as a controller would pass it.
const restoreSubject = `{"apiVersion":"grapnel.dev/v1alpha1","kind":"Restore",
	"metadata":{"name":"again","namespace":"grapnel-system","uid":"u-2"},
	"spec":{"scheduleName":"every-night","includedNamespaces":["shop"]},"status":{"phase":"InProgress"}}`

// allKinds makes faultplugin provide an action named "a.io/x" of every kind.
const allKinds = "PreBackupAction:a.io/x,PostBackupAction:a.io/x,PreRestoreAction:a.io/x,PostRestoreAction:a.io/x"

func restoreCall(point, key string) executor.Call {
	return executor.Call{
		Point: point, Action: "a.io/x", Key: key, Attempt: 1, Subject: []byte(restoreSubject), BackupName: "nightly-3",
		Parameters: map[string]string{"fault": "outputs"},
	}
}

// TestExecute_RestoreOutputs follows an output from a PreBackup action to the actions
// of a later restore.
func TestExecute_RestoreOutputs(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	info := load(t, c, fault("p", map[string]string{"FAULT_ACTIONS": allKinds}))
	want := []catalog.Action{
		{Kind: "PostBackupAction", Version: "v1", Name: "a.io/x"},
		{Kind: "PostRestoreAction", Version: "v1", Name: "a.io/x"},
		{Kind: "PreBackupAction", Version: "v1", Name: "a.io/x"},
		{Kind: "PreRestoreAction", Version: "v1", Name: "a.io/x"},
	}
	if diff := cmp.Diff(want, info.Actions); diff != "" {
		t.Fatalf("actions (-want +got):\n%s", diff)
	}
	backup := preBackup("of-backup", map[string]string{"fault": "outputs"})
	backup.Action = "a.io/x"
	kept := answer(t, c, backup)

	pre := restoreCall(executor.PointPreRestore, "of-pre")
	pre.BackupOutputs = map[string]map[string]string{"a.io/x": kept}
	fromPre := answer(t, c, pre)
	if diff := cmp.Diff(map[string]string{"from": "of-pre", "pre": "", "backup": "nightly-3", "backup-pre": "of-backup"}, fromPre); diff != "" {
		t.Errorf("PreRestore got (-want +got):\n%s", diff)
	}

	post := restoreCall(executor.PointPostRestore, "of-post")
	post.Outputs, post.BackupOutputs = map[string]map[string]string{"a.io/x": fromPre}, pre.BackupOutputs
	fromPost := answer(t, c, post)
	if diff := cmp.Diff(map[string]string{"from": "of-post", "pre": "of-pre", "backup": "nightly-3", "backup-pre": "of-backup"}, fromPost); diff != "" {
		t.Errorf("PostRestore got (-want +got):\n%s", diff)
	}
}

func answer(t *testing.T, c *catalog.Catalog, call executor.Call) map[string]string {
	t.Helper()
	got, err := execute(t, c, "p", call, nil)
	if err != nil {
		t.Fatalf("%s: %v", call.ActionKind(), err)
	}
	return got.Outputs
}

func TestExecute_RestoreFailures(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	load(t, c, fault("p", map[string]string{"FAULT_ACTIONS": allKinds}))
	failing := restoreCall(executor.PointPostRestore, "error")
	failing.Parameters["fault"] = "error"
	notJSON := restoreCall(executor.PointPreRestore, "json")
	notJSON.Subject = []byte("no json")
	for name, tc := range map[string]struct {
		call executor.Call
		kind executor.ErrorKind
		text string
	}{
		"error":              {call: failing, kind: executor.Failed, text: "PostRestoreAction(a.io/x): the database said no"},
		"object is not JSON": {call: notJSON, kind: executor.Invalid, text: "PreRestoreAction(a.io/x): parsing the Restore object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t, c, "p", tc.call, nil)
			if executor.ErrorKindOf(err) != tc.kind || !strings.HasPrefix(err.Error(), tc.text) {
				t.Errorf("error is %s %v, want %s %q", executor.ErrorKindOf(err), err, tc.kind, tc.text)
			}
		})
	}
}

// TestExecute_RestoreLogs checks that a line of a restore action is written to the log of its
// run.
func TestExecute_RestoreLogs(t *testing.T) {
	operator := plugintesting.NewLog(t)
	c := newCatalog(t, catalog.Options{Logger: operator.Logger()})
	load(t, c, fault("p", map[string]string{"FAULT_ACTIONS": allKinds}))
	for _, point := range []string{executor.PointPreRestore, executor.PointPostRestore} {
		call := restoreCall(point, "key-"+point)
		call.Parameters["fault"] = "log:2"
		log := plugintesting.NewLog(t)
		if _, err := execute(t, c, "p", call, log); err != nil {
			t.Fatal(err)
		}
		log.Close()
		if text := log.Text(); !strings.Contains(text, "line 1 of key-"+point) {
			t.Errorf("the log of the run lacks its lines:\n%s", text)
		}
	}
	if text := operator.Text(); strings.Contains(text, " of key-") {
		t.Errorf("lines of runs are in the operator's log:\n%s", text)
	}
}
