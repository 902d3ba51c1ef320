// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
)

const deletedSubject = `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"nightly","uid":"u-1"}}`

// loadDeletion loads faultplugin with a DeleteAction and a hook of the same name.
func loadDeletion(t *testing.T) *catalog.Catalog {
	t.Helper()
	c := newCatalog(t, catalog.Options{Grace: 50 * time.Millisecond})
	info := load(t, c, fault("p", map[string]string{"FAULT_ACTIONS": "DeleteAction:a.io/x,PreBackupAction:a.io/x", "FAULT_SELECTOR": "app=shop"}))
	want := []catalog.Action{
		{Kind: "DeleteAction", Version: "v1", Name: "a.io/x"}, {Kind: "PreBackupAction", Version: "v1", Name: "a.io/x"},
	}
	if diff := cmp.Diff(want, info.Actions); diff != "" {
		t.Fatalf("actions (-want +got):\n%s", diff)
	}
	return c
}

// selectorOf requests the selector of a DeleteAction.
func selectorOf(ctx context.Context, c *catalog.Catalog, action, selector string) (got labels.Selector, err error) {
	call := pluginclient.ItemCall{Action: action, Key: "run", Parameters: map[string]string{"selector": selector}}
	open, err := pluginclient.NewCaller(c.DeleteAction("p", action), c.Redactor()).Begin(ctx, host.Call{Key: "run", Log: logr.Discard()})
	if err != nil {
		return nil, err
	}
	call.Conn, call.CallID = open.Conn(), open.ID()
	got, err = open.Action.AppliesTo(ctx, call)
	open.End(&err)
	return got, err
}

func deleteCall(key, fault string) executor.Call {
	return executor.Call{
		Point: "Delete", Action: "a.io/x", Key: key, Attempt: 2, Subject: []byte(deletedSubject),
		Parameters:    map[string]string{"fault": fault},
		BackupOutputs: map[string]map[string]string{"a.io/x": {"from": "snap-1"}},
	}
}

func TestDeleteAction_Process(t *testing.T) {
	c := loadDeletion(t)
	got, err := selectorOf(t.Context(), c, "a.io/x", "")
	if err != nil || got.String() != "app=shop" {
		t.Errorf("the selector is %v, error %v", got, err)
	}
	log := plugintesting.NewLog(t)
	answer, err := execute(t, c, "p", deleteCall("run", "none"), log)
	if diff := cmp.Diff(executor.Answer{}, answer); diff != "" || err != nil {
		t.Errorf("error %v, response (-want +got):\n%s", err, diff)
	}
	for _, want := range []string{"Removing what belongs to a backup", "nightly", "snap-1"} {
		if !strings.Contains(log.Text(), want) {
			t.Errorf("the log of the run lacks %q: %s", want, log.Text())
		}
	}
	open, err := pluginclient.NewCaller(c.DeleteAction("p", "a.io/x"), c.Redactor()).Begin(t.Context(), host.Call{Key: "run", Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	err = open.Action.Execute(t.Context(), open.Conn(), open.ID(), deleteCall("run", "error"))
	open.End(&err)
	if kindOf(err) != executor.Failed {
		t.Errorf("error outside of an executor is %v", err)
	}
}

func TestDeleteAction_Failures(t *testing.T) {
	c := loadDeletion(t)
	broken := deleteCall("broken", "none")
	broken.Subject = []byte("no json")
	noKey, outputs := deleteCall("", "none"), deleteCall("outputs", "none")
	outputs.BackupOutputs["a.io/x"] = map[string]string{"a/b": "c"}
	for name, tc := range map[string]struct {
		call    executor.Call
		timeout time.Duration
		want    executor.ErrorKind
		text    string
	}{
		"error":              {call: deleteCall("1", "error"), want: executor.Failed, text: "the database said no"},
		"unavailable inside": {call: deleteCall("2", "unavailable"), want: executor.Failed, text: "the database is unavailable"},
		"panic":              {call: deleteCall("3", "panic"), want: executor.Failed, text: "plugin panicked: something is nil"},
		"killed":             {call: deleteCall("4", "kill"), want: executor.Unreachable, text: "ended by signal 9 (killed) during the call"},
		"hangs":              {call: deleteCall("5", "hang"), timeout: 100 * time.Millisecond, want: executor.Timeout, text: "before its deadline"},
		"waits for ctx":      {call: deleteCall("6", "wait"), timeout: 100 * time.Millisecond, want: executor.Timeout, text: "before its deadline"},
		"no key":             {call: noKey, want: executor.Invalid, text: "no idempotency key"},
		"odd outputs":        {call: outputs, want: executor.Invalid, text: `the backup's outputs of "a.io/x"`},
		"not a Backup":       {call: broken, want: executor.Invalid, text: "parsing the Backup object"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.timeout)
				defer cancel()
			}
			e, err := c.Executor("p", tc.call.ActionKind(), tc.call.Action)
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.Execute(ctx, tc.call)
			if executor.ErrorKindOf(err) != tc.want || !strings.HasPrefix(err.Error(), "DeleteAction(a.io/x): ") || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error is %v (%s), want %s with %q", err, executor.ErrorKindOf(err), tc.want, tc.text)
			}
			checkNoSecret(t, "the error", err.Error())
			// No fault affects the next attempt.
			if _, err := e.Execute(t.Context(), deleteCall("after-"+name, "none")); err != nil {
				t.Errorf("the next attempt fails: %v", err)
			}
		})
	}
}

func TestDeleteAction_AppliesToFailures(t *testing.T) {
	c := loadDeletion(t)
	for name, tc := range map[string]struct {
		action, selector string
		timeout          time.Duration
		want             executor.ErrorKind
		text             string
	}{
		"invalid selector": {selector: "a=b=c", want: executor.Failed, text: "invalid selector of Backups"},
		"error":            {selector: "fault:error", want: executor.Failed, text: "the database said no"},
		"panic":            {selector: "fault:panic", want: executor.Failed, text: "plugin panicked: something is nil"},
		"killed":           {selector: "fault:kill", want: executor.Unreachable, text: "ended by signal 9 (killed) during the call"},
		"hangs":            {selector: "fault:hang", timeout: 100 * time.Millisecond, want: executor.Timeout, text: "before its deadline"},
		"no action":        {action: "a.io/y", want: executor.Invalid, text: "does not provide DeleteAction(a.io/y)"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, action := t.Context(), tc.action
			if action == "" {
				action = "a.io/x"
			}
			if tc.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.timeout)
				defer cancel()
			}
			_, err := selectorOf(ctx, c, action, tc.selector)
			if kindOf(err) != tc.want || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error is %v (%s), want %s with %q", err, kindOf(err), tc.want, tc.text)
			}
			checkNoSecret(t, "the error", err.Error())
			if _, err := selectorOf(t.Context(), c, "a.io/x", ""); err != nil {
				t.Errorf("the next request fails: %v", err)
			}
		})
	}
	c.Unload(t.Context(), "p")
	if _, err := selectorOf(t.Context(), c, "a.io/x", ""); kindOf(err) != executor.Unreachable || errors.Is(err, pluginclient.ErrNoSuchAction) {
		t.Errorf("error of an unloaded plugin is %v (%s)", err, kindOf(err))
	}
}
