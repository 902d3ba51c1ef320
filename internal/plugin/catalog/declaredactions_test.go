// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// says is an executor that returns its name.
type says string

func (s says) Execute(context.Context, executor.Call) (executor.Answer, error) {
	return executor.Answer{Message: string(s)}, nil
}

// declares returns the specification of a plugin whose actions all return the same output.
func declares(name, answer string, created time.Time, ids ...catalog.ActionID) catalog.Spec {
	spec := catalog.Spec{Name: name, Created: created, DeclaredActions: &catalog.DeclaredActions{Digest: answer, Executors: map[catalog.ActionID]executor.Executor{}}}
	for _, id := range ids {
		spec.DeclaredActions.Executors[id] = says(answer)
	}
	return spec
}

var (
	freeze = catalog.ActionID{Kind: "PreBackupAction", Name: "example.io/freeze"}
	thaw   = catalog.ActionID{Kind: "PostBackupAction", Name: "example.io/freeze"}
	wipe   = catalog.ActionID{Kind: "DeleteAction", Name: "example.io/wipe"}
)

func answerOf(t *testing.T, c *catalog.Catalog, plugin string, id catalog.ActionID) string {
	t.Helper()
	run, err := c.Executor(plugin, id.Kind, id.Name)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := run.Execute(t.Context(), executor.Call{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Message
}

// TestDeclaredExecutor loads plugins without a process.
func TestDeclaredExecutor(t *testing.T) {
	t.Parallel()
	c := catalog.New(catalog.Options{})
	defer c.Close(t.Context())
	old := time.Unix(1, 0)
	info, err := c.Load(t.Context(), declares("db", "first", old, freeze, thaw, wipe))
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Actions) != 3 || info.Actions[0].Version != "v1" || info.Digest != "first" {
		t.Errorf("provides %+v", info)
	}
	if got := answerOf(t, c, "db", freeze); got != "first" {
		t.Errorf("the action returned %q", got)
	}
	if _, err := c.Executor("db", "PreRestoreAction", freeze.Name); !errors.Is(err, pluginclient.ErrNoSuchAction) {
		t.Errorf("an action that was not declared: %v", err)
	}
	if _, err := c.Load(t.Context(), declares("db", "second", old, freeze)); err != nil {
		t.Fatal(err)
	}
	if got := answerOf(t, c, "db", freeze); got != "second" {
		t.Errorf("after a change, the action returned %q", got)
	}
	if _, err := c.Executor("db", thaw.Kind, thaw.Name); !errors.Is(err, pluginclient.ErrNoSuchAction) {
		t.Errorf("an action that is no longer declared: %v", err)
	}
	c.Unload(t.Context(), "db")
	if _, err := c.Executor("db", freeze.Kind, freeze.Name); err == nil {
		t.Error("the action can be run although its plugin was unloaded")
	}
}

// ends is an executor whose work continues without the operator.
type ends struct{ says }

func (ends) CollectResult(context.Context, executor.Call, time.Time) (executor.Answer, bool, error) {
	return executor.Answer{}, false, nil
}

func (ends) Stop(context.Context, executor.Call) error { return nil }

// TestResumableExecutor covers the executor that ends the Job of an action that its Plugin
// no longer declares.
func TestResumableExecutor(t *testing.T) {
	t.Parallel()
	c := catalog.New(catalog.Options{})
	defer c.Close(t.Context())
	spec := declares("jobs", "jobs", time.Unix(1, 0), freeze)
	spec.DeclaredActions.Resumable = ends{"jobs"}
	for _, s := range []catalog.Spec{spec, declares("pods", "pods", time.Unix(1, 0), wipe)} {
		if _, err := c.Load(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.ResumableExecutor("jobs"); got != (ends{"jobs"}) {
		t.Errorf("the Plugin of Jobs has %v", got)
	}
	if got := c.ResumableExecutor("pods"); got != nil {
		t.Errorf("a Plugin whose work ends with the operator has %v", got)
	}
	c.Unload(t.Context(), "jobs")
	if got := c.ResumableExecutor("jobs"); got != nil {
		t.Errorf("a Plugin that is not loaded has %v", got)
	}
}

// TestLoad_DeclaredTwice declares one action in two Plugins.
func TestLoad_DeclaredTwice(t *testing.T) {
	t.Parallel()
	c := catalog.New(catalog.Options{})
	defer c.Close(t.Context())
	if _, err := c.Load(t.Context(), declares("old", "old", time.Unix(1, 0), freeze)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Load(t.Context(), declares("new", "new", time.Unix(2, 0), freeze, thaw))
	if failed := (*catalog.LoadError)(nil); !errors.As(err, &failed) || failed.Reason != catalog.ReasonDuplicateAction {
		t.Errorf("error %v", err)
	}
	c.Unload(t.Context(), "old")
	if _, err := c.Load(t.Context(), declares("new", "new", time.Unix(2, 0), freeze, thaw)); err != nil {
		t.Fatal(err)
	}
	if got := answerOf(t, c, "new", freeze); got != "new" {
		t.Errorf("the action returned %q", got)
	}
}

// TestDeleteAction_Declared checks that the action applies to every Backup: the selector in its
// Plugin is evaluated elsewhere.
func TestDeleteAction_Declared(t *testing.T) {
	t.Parallel()
	c := catalog.New(catalog.Options{})
	defer c.Close(t.Context())
	if _, err := c.Load(t.Context(), declares("db", "wiped", time.Unix(1, 0), wipe)); err != nil {
		t.Fatal(err)
	}
	selector, err := pluginclient.RequestSelector(t.Context(), c.DeleteAction("db", wipe.Name), redact.New(), pluginclient.SelectorRequest{Action: wipe.Name, Key: "k"})
	if err != nil || !selector.Matches(labels.Set{"any": "thing"}) {
		t.Errorf("it applies to %v, %v", selector, err)
	}
}
