// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
)

// changes collects the names that OnChange is called with.
type changes struct {
	mu    sync.Mutex
	names []string
}

func (c *changes) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, name)
}

// take returns the names since the last call, sorted.
func (c *changes) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	slices.Sort(names)
	return names
}

// born is a Plugin with an age in seconds that provides the pre-backup actions with the
// given names.
func born(name string, second int64, actions ...string) catalog.Spec {
	for i, action := range actions {
		actions[i] = "PreBackupAction:" + action
	}
	spec := fault(name, map[string]string{"FAULT_ACTIONS": strings.Join(actions, ",")})
	spec.Created = time.Unix(second, 0)
	return spec
}

// expectRefused loads a plugin that is refused because of an action of owner.
func expectRefused(t *testing.T, c *catalog.Catalog, spec catalog.Spec, owner string) {
	t.Helper()
	info, err := c.Load(t.Context(), spec)
	if len(info.Actions) == 0 {
		t.Errorf("the Info of %s is missing", spec.Name)
	}
	var refused *catalog.LoadError
	if !errors.As(err, &refused) || refused.Reason != catalog.ReasonDuplicateAction {
		t.Errorf("loading %q: error is %v, want DuplicateAction", spec.Name, err)
		return
	}
	for _, part := range []string{strconv.Quote(owner), strconv.Quote(spec.Name), "PreBackupAction(", "remove one"} {
		if !strings.Contains(refused.Message, part) {
			t.Errorf("message %q lacks %q", refused.Message, part)
		}
	}
}

func rival(plugin, action string) catalog.ConflictingPlugin {
	return catalog.ConflictingPlugin{Plugin: plugin, Action: catalog.ActionID{Kind: "PreBackupAction", Name: action}}
}

func expectLoaded(t *testing.T, c *catalog.Catalog, spec catalog.Spec, rivals ...catalog.ConflictingPlugin) {
	t.Helper()
	if diff := cmp.Diff(rivals, load(t, c, spec).ConflictingPlugins); diff != "" {
		t.Errorf("conflicting plugins of %q (-want +got):\n%s", spec.Name, diff)
	}
}

func expectChanges(t *testing.T, c *changes, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, c.take()); diff != "" {
		t.Errorf("changed for (-want +got):\n%s", diff)
	}
}

func TestOwnership_OlderPlugin(t *testing.T) {
	told := &changes{}
	c := newCatalog(t, catalog.Options{OnChange: told.add})
	old, young := born("z-old", 1, "a", "b"), born("a-young", 2, "b", "c")
	expectLoaded(t, c, old)
	expectRefused(t, c, young, "z-old")
	expectChanges(t, told, "z-old")
	expectLoaded(t, c, old, rival("a-young", "b"))
	expectRefused(t, c, young, "z-old")
	expectChanges(t, told)
	if running := plugintesting.ListChildren(plugins); len(running) != 1 {
		t.Errorf("running are %q, want the process of the older one", running)
	}
	if _, err := c.Executor("a-young", "PreBackupAction", "c"); err == nil {
		t.Error("a plugin that was never in service can be called")
	}
	c.Unload(t.Context(), "z-old")
	expectChanges(t, told, "a-young")
	expectLoaded(t, c, young)
}

// TestOwnership_OlderPluginLoadedLater loads the older plugin last: an operator that starts loads
// plugins in any order.
func TestOwnership_OlderPluginLoadedLater(t *testing.T) {
	told := &changes{}
	c := newCatalog(t, catalog.Options{OnChange: told.add})
	old, young := born("z-old", 1, "b"), born("a-young", 2, "b", "c")
	expectLoaded(t, c, young)
	expectLoaded(t, c, old, rival("a-young", "b"))
	expectChanges(t, told, "a-young")
	expectRefused(t, c, young, "z-old")

	// Runs that began with it can end with it.
	call := preBackup("k", nil)
	for _, call.Action = range []string{"b", "c"} {
		if _, err := execute(t, c, "a-young", call, nil); err != nil {
			t.Errorf("calling %s of the refused plugin: %v", call.Action, err)
		}
	}
	// It no longer registers the common action.
	expectLoaded(t, c, born("a-young", 2, "c"))
	expectChanges(t, told, "z-old")
	expectLoaded(t, c, old)
}

func TestOwnership_RefusedPlugin(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	first, second, third := born("first", 1, "a"), born("second", 2, "a", "b"), born("third", 3, "b")
	expectLoaded(t, c, first)
	expectRefused(t, c, second, "first")
	expectLoaded(t, c, third)
	c.Unload(t.Context(), "first")
	expectLoaded(t, c, second, rival("third", "b"))
	expectRefused(t, c, third, "second")
}

func TestOwnership_SameAge(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	expectLoaded(t, c, born("b", 1, "x"))
	expectLoaded(t, c, born("a", 1, "x"), rival("b", "x"))
	expectRefused(t, c, born("b", 1, "x"), "a")
}

// TestOwnership_RefusedBinaryIsNotRestarted checks that a refused binary is started again only
// after a change.
func TestOwnership_RefusedBinaryIsNotRestarted(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	expectLoaded(t, c, born("old", 1, "a"))
	binary := filepath.Join(t.TempDir(), "plugin")
	copyPlugin(t, "faultplugin", binary)
	young := born("young", 2, "a")
	young.Process.Path = binary
	expectRefused(t, c, young, "old")

	// The changed binary does not start.
	young.Process.Env["FAULT_START"] = "exit"
	var failed *catalog.LoadError
	if _, err := c.Load(t.Context(), young); !errors.As(err, &failed) || failed.Reason != "ExitedAtOnce" {
		t.Errorf("a changed specification was not loaded: %v", err)
	}
	delete(young.Process.Env, "FAULT_START")
	expectRefused(t, c, young, "old")
	copyPlugin(t, "exampleplugin", binary)
	load(t, c, young)
}
