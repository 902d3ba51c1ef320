// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore"
)

// plugged is an action of a request. Like a plugin's action, it returns objects in their
// original namespaces.
type plugged struct {
	name string
	// of are the resources that it handles, and only selects the objects.
	of   []string
	only func(namespace string, labels map[string]string) bool
	// choose and execute answer the calls.
	choose  func(names itemaction.ResourceResolver) error
	execute func(ctx context.Context, item *itemaction.RestoreItem) (itemaction.Result, error)
	ready   func(item *itemaction.RestoreItem, restored []itemaction.RelatedItem) (bool, error)

	mu sync.Mutex
	// shown are the objects for which it was called, by their names in the backup.
	shown []string
}

func (p *plugged) Name() string   { return p.name }
func (p *plugged) Plugin() string { return "plugged" }
func (p *plugged) Kind() string   { return "AsyncRestoreItemAction" }
func (p *plugged) AppliesTo(gr schema.GroupResource) bool {
	return slices.Contains(p.of, gr.String())
}

func (p *plugged) Matches(namespace string, labels func() map[string]string) bool {
	return p.only == nil || p.only(namespace, labels())
}

func (p *plugged) ResolveSelector(_ context.Context, names itemaction.ResourceResolver) error {
	if p.choose == nil {
		return nil
	}
	return p.choose(names)
}

func (p *plugged) Execute(ctx context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	p.mu.Lock()
	p.shown = append(p.shown, item.Archived.GetNamespace()+"/"+item.Archived.GetName())
	p.mu.Unlock()
	item.Object.SetNamespace(item.Archived.GetNamespace())
	if p.execute == nil {
		return itemaction.Result{}, nil
	}
	return p.execute(ctx, item)
}

// AreRelatedItemsReady implements itemaction.Waiter.
func (p *plugged) AreRelatedItemsReady(
	_ context.Context, item *itemaction.RestoreItem, restored []itemaction.RelatedItem,
) (bool, error) {
	return p.ready(item, restored)
}

// seen returns the objects since its last call, sorted.
func (p *plugged) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Sorted(slices.Values(p.shown))
	p.shown = nil
	return out
}

// stamps returns an action that adds a word to a value of each ConfigMap.
func stamps(name string) *plugged {
	return &plugged{name: name, of: []string{"configmaps"}, execute: func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		was, _, _ := unstructured.NestedString(item.Object.Object, "data", "key")
		return itemaction.Result{}, unstructured.SetNestedField(item.Object.Object, was+" "+name, "data", "key")
	}}
}

func wantSeen(t *testing.T, p *plugged, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, p.seen()); diff != "" {
		t.Errorf("shown to %s (-want +got):\n%s", p.name, diff)
	}
}

// TestExecutePluginActions_ChangedObjects executes actions in the order of the request, each for the objects that
// match after the previous one; namespaces are swapped.
func TestExecutePluginActions_ChangedObjects(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const a, b = "plug-swap-a", "plug-swap-b"
	first, second := stamps("first"), stamps("second")
	stamp := first.execute
	first.execute = func(ctx context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		item.Object.SetLabels(map[string]string{"stamped": "first"})
		return stamp(ctx, item)
	}
	second.only = func(namespace string, labels map[string]string) bool {
		return namespace == b && labels["stamped"] == "first"
	}
	result := c.run(restore.Request{
		Archive:          spool(t, []*unstructured.Unstructured{configMap(t, a, "c", "a"), configMap(t, b, "c", "b")}),
		NamespaceMapping: map[string]string{a: b, b: a}, Actions: []itemaction.RestorePluginAction{first, second}, RestoreUID: "u",
	})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 4})
	wantMessages(t, result)
	for ns, want := range map[string]string{a: "b first", b: "a first second"} {
		found := c.get(configMap(t, ns, "c", ""))
		if got := data(found)["key"]; got != want {
			t.Errorf("%s has %q, want %q", ns, got, want)
		}
		if found.GetLabels()["grapnel.dev/restore-name"] != "again" {
			t.Errorf("labels %v", found.GetLabels())
		}
	}
	wantSeen(t, first, a+"/c", b+"/c")
	wantSeen(t, second, a+"/c")
	if diff := cmp.Diff([]string{"grapnel.dev/platform", "first", "second"}, result.Actions["configmaps"]); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]restore.ActionReport{
		{Name: "first", Plugin: "plugged", Calls: 2}, {Name: "second", Plugin: "plugged", Calls: 1},
	}, result.ActionReports); diff != "" {
		t.Errorf("called (-want +got):\n%s", diff)
	}
}

// TestExecutePluginActions_ProtectedFields attacks the guarantees of a restore: names, labels and removed data
// of the old cluster.
func TestExecutePluginActions_ProtectedFields(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "plug-bend"
	bends := &plugged{name: "bends", of: []string{"configmaps"}, execute: func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		item.Object = item.Archived.DeepCopy()
		item.Object.SetResourceVersion("7")
		item.Object.SetAnnotations(map[string]string{"grapnel.dev/restored": "created forged", "kept": "yes"})
		return itemaction.Result{}, nil
	}}
	owned := configMap(t, ns, "c", "x")
	if err := unstructured.SetNestedField(owned.Object, []any{map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "of-the-old-cluster",
	}}, "metadata", "ownerReferences"); err != nil {
		t.Fatal(err)
	}
	result := c.run(restore.Request{Archive: spool(t, []*unstructured.Unstructured{owned}), Actions: []itemaction.RestorePluginAction{bends}, RestoreUID: "u"})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2})
	found := c.get(owned)
	if len(found.GetOwnerReferences()) > 0 || !strings.HasPrefix(found.GetAnnotations()["grapnel.dev/restored"], "created u ") ||
		found.GetAnnotations()["kept"] != "yes" || found.GetLabels()["grapnel.dev/backup-name"] != "nightly" {
		t.Errorf("metadata %v", found.Object["metadata"])
	}
}

// TestExecutePluginActions_Failures, and skip another one.
func TestExecutePluginActions_Failures(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "plug-fail"
	picky := &plugged{name: "picky", of: []string{"configmaps"}, execute: func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		switch item.Archived.GetName() {
		case "bad":
			return itemaction.Result{}, errors.New("does not like it")
		case "skipped":
			return itemaction.Result{Skip: "restore action picky skips it"}, nil
		case "warned":
			return itemaction.Result{Warnings: []string{"beware"}}, nil
		}
		return itemaction.Result{}, nil
	}}
	after := stamps("after")
	result := c.run(restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{
			configMap(t, ns, "bad", "x"), configMap(t, ns, "skipped", "x"), configMap(t, ns, "warned", "x"), configMap(t, ns, "good", "x"),
		}),
		Actions: []itemaction.RestorePluginAction{picky, after},
	})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3, restore.Failed: 1, restore.Skipped: 1})
	wantMessages(t, result,
		`error plug-fail: configmaps "plug-fail/bad": restore action picky: does not like it`,
		`warning plug-fail: configmaps "plug-fail/warned": beware`)
	if result.SkipReasons["restore action picky skips it"] != 1 {
		t.Errorf("reasons %v", result.SkipReasons)
	}
	wantSeen(t, after, ns+"/good", ns+"/warned")
	if called := result.ActionReports[0]; called.Calls != 4 || called.Skipped != 1 || called.Failed != 1 {
		t.Errorf("called %+v", called)
	}
}

// TestResolveActionSelectors_Error has an action without a valid selector. The run ends before anything is written, including definitions.
func TestResolveActionSelectors_Error(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, group = "plug-choose", "plug-choose.example.org"
	var resolved []string
	knows := stamps("knows")
	knows.choose = func(names itemaction.ResourceResolver) error {
		for _, name := range []string{"cm", "widgets." + group, "nothing.example.org"} {
			if gr, ok := names.Resolve(name); ok {
				resolved = append(resolved, gr.String())
			}
		}
		return nil
	}
	broken := stamps("broken")
	broken.choose = func(itemaction.ResourceResolver) error {
		return errors.New(`action broken of plugin "p" does not answer: repair it`)
	}
	missing := stamps("missing")
	missing.choose = func(itemaction.ResourceResolver) error {
		return &itemaction.SkippedActionError{Reason: "action missing was skipped"}
	}
	request := restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{widgets(t, group, "v1"), widget(t, group, "v1", ns, "w"), configMap(t, ns, "c", "x")}),
		Actions: []itemaction.RestorePluginAction{knows, broken, missing}, BackupName: "b", RestoreName: "r",
	}
	c.wire.reset()
	result, err := c.engine.RestoreObjects(t.Context(), request)
	if err == nil || !strings.Contains(err.Error(), `no object was changed: action broken of plugin "p" does not answer: repair it`) {
		t.Errorf("error %v", err)
	}
	if writes := c.wire.writes(); len(writes) > 0 || result.Total() > 0 {
		t.Errorf("it wrote %v and counted %v", writes, result.Counts)
	}
	if diff := cmp.Diff([]string{"configmaps", "widgets." + group}, resolved); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	request.Actions = []itemaction.RestorePluginAction{knows, missing}
	result = c.run(request)
	wantMessages(t, result, "warning run: action missing was skipped")
	wantSeen(t, knows, ns+"/c")
	wantSeen(t, missing)
}

// TestExecutePluginActions_DryRun, and lists those that would be called.
func TestExecutePluginActions_DryRun(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "plug-dry"
	named, other := stamps("named"), stamps("other")
	named.only = func(_ string, labels map[string]string) bool { return labels["named"] != "" }
	other.only = func(string, map[string]string) bool { return false }
	objects := []*unstructured.Unstructured{configMap(t, ns, "c", "x"), configMap(t, ns, "d", "x")}
	objects[0].SetLabels(map[string]string{"named": "true"})
	result := c.run(restore.Request{
		Archive: spool(t, objects),
		Actions: []itemaction.RestorePluginAction{named, other}, DryRun: true,
	})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3})
	wantMessages(t, result, "warning run: |restore action named|is not called in a dry run")
	if diff := cmp.Diff([]string{"grapnel.dev/platform", "named"}, result.Actions["configmaps"]); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	wantSeen(t, named)
}

// TestExecutePluginActions_ExistingObjects: the effects of an action cannot be undone.
func TestExecutePluginActions_ExistingObjects(t *testing.T) {
	const many = 25 // as many as are listed
	for name, tc := range map[string]struct {
		policy restore.ExistingPolicy
		extra  int
		want   []string
	}{
		"none":             {restore.ExistingNone, 0, []string{"new"}},
		"none, listed":     {restore.ExistingNone, many, []string{"new"}},
		"update":           {restore.ExistingUpdate, 0, []string{"differs", "new", "same"}},
		"update, listed":   {restore.ExistingUpdate, many, []string{"differs", "new", "same"}},
		"recreate":         {restore.ExistingRecreate, 0, []string{"differs", "new", "same"}},
		"recreate, listed": {restore.ExistingRecreate, many, []string{"differs", "new", "same"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			ns := strings.NewReplacer(" ", "", ",", "-").Replace("plug-exists-" + name)
			c.namespace(ns)
			c.create(configMap(t, ns, "same", "x acts"), configMap(t, ns, "differs", "y"))
			acts := stamps("acts")
			objects := []*unstructured.Unstructured{configMap(t, ns, "same", "x"), configMap(t, ns, "differs", "x"), configMap(t, ns, "new", "x")}
			want := []string{}
			for _, name := range tc.want {
				want = append(want, ns+"/"+name)
			}
			for i := range tc.extra {
				objects = append(objects, configMap(t, ns, fmt.Sprintf("z-%02d", i), "x"))
				want = append(want, fmt.Sprintf("%s/z-%02d", ns, i))
			}
			request := restore.Request{Archive: spool(t, objects), Policy: tc.policy, Actions: []itemaction.RestorePluginAction{acts}, RestoreUID: "u"}
			result := c.run(request)
			wantSeen(t, acts, want...)
			if got := data(c.get(configMap(t, ns, "new", "")))["key"]; got != "x acts" {
				t.Errorf("the new one has %q", got)
			}
			text := messages(result)
			if hint := strings.Contains(text, "restore action acts, which is not called for unchanged objects"); hint != (tc.policy == restore.ExistingNone) {
				t.Errorf("messages:\n%s", text)
			}
			if tc.policy == restore.ExistingNone {
				return
			}
			if got := data(c.get(configMap(t, ns, "differs", "")))["key"]; got != "x acts" {
				t.Errorf("the one that differed has %q", got)
			}
			if result.Counts[restore.Unchanged] != 1 {
				t.Errorf("counts %v", result.Counts)
			}
		})
	}
}

// TestExecutePluginActions_Rerun: actions are not called again for an object that
// an interrupted restore created, and are called for the others.
func TestExecutePluginActions_Rerun(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, size = "plug-again", 12
	var objects []*unstructured.Unstructured
	for i := range size {
		objects = append(objects, configMap(t, ns, fmt.Sprintf("c-%02d", i), "x"))
	}
	acts := stamps("acts")
	request := restore.Request{Archive: spool(t, objects), Actions: []itemaction.RestorePluginAction{acts}, RestoreUID: "u"}
	c.run(request)
	if n := len(acts.seen()); n != size {
		t.Fatalf("shown %d objects", n)
	}
	wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Created: size + 1})
	wantSeen(t, acts)
	gone := objects[3]
	if err := c.of(gone).Delete(t.Context(), gone.GetName(), deleteNow); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Created: size + 1})
	wantSeen(t, acts, ns+"/"+gone.GetName())
	// Another restore does not change them.
	request.RestoreUID = "v"
	c.run(request)
	wantSeen(t, acts)
}

// TestExecutePluginActions_Concurrent, up to the limit.
func TestExecutePluginActions_Concurrent(t *testing.T) {
	const workers, size = 4, 24
	c := newTarget(t, restore.Options{ActionWorkers: workers})
	var objects []*unstructured.Unstructured
	for i := range size {
		objects = append(objects, configMap(t, "plug-overlap", fmt.Sprintf("c-%02d", i), "x"))
	}
	var mu sync.Mutex
	together := sync.NewCond(&mu)
	in, arrived, most := 0, 0, 0
	slow := &plugged{name: "slow", of: []string{"configmaps"}, execute: func(context.Context, *itemaction.RestoreItem) (itemaction.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		in++
		arrived++
		most = max(most, in)
		together.Broadcast()
		for arrived < workers { // no call returns before that many have arrived
			together.Wait()
		}
		in--
		return itemaction.Result{}, nil
	}}
	result := c.run(restore.Request{Archive: spool(t, objects), Actions: []itemaction.RestorePluginAction{slow}})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: size + 1})
	if most != workers {
		t.Errorf("%d calls at a time, want %d", most, workers)
	}
}

// TestExecutePluginActions_Interrupted: an interrupted call does not count as failed.
func TestExecutePluginActions_Interrupted(t *testing.T) {
	c := newTarget(t, restore.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	waits := &plugged{name: "waits", of: []string{"configmaps"}, execute: func(ctx context.Context, _ *itemaction.RestoreItem) (itemaction.Result, error) {
		cancel(errLeader)
		<-ctx.Done()
		return itemaction.Result{}, ctx.Err()
	}}
	result, err := c.engine.RestoreObjects(ctx, restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{configMap(t, "plug-stop", "a", "x"), configMap(t, "plug-stop", "b", "x")}),
		Actions: []itemaction.RestorePluginAction{waits}, BackupName: "b", RestoreName: "r",
	})
	if !errors.Is(err, errLeader) || result.Counts[restore.Failed] > 0 || result.Results.ErrorCount > 0 {
		t.Errorf("error %v, counts %v:\n%s", err, result.Counts, messages(result))
	}
}
