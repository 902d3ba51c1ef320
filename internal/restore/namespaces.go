// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
	"github.com/grapnel-dev/grapnel/internal/kube/write"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/clean"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// namespaceState is what a run knows of a namespace of the cluster.
type namespaceState struct {
	once sync.Once
	// fresh says that this run made it: nothing was in it before.
	fresh bool
	// err is why nothing can be restored into it.
	err error
}

// namespaceBook has the namespaces of the cluster by name.
type namespaceBook struct {
	// listed are those that existed when the run began.
	listed map[string]list.Item

	mu     sync.Mutex
	states map[string]*namespaceState
}

func (b *namespaceBook) state(name string) *namespaceState {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.states == nil {
		b.states = map[string]*namespaceState{}
	}
	state := b.states[name]
	if state == nil {
		state = &namespaceState{}
		b.states[name] = state
	}
	return state
}

// namespace returns the state of a namespace, which is made if it is missing.
func (r *run) namespace(ctx context.Context, name string) *namespaceState {
	state := r.namespaces.state(name)
	state.once.Do(func() { state.fresh, state.err = r.openNamespace(ctx, name) })
	return state
}

// openNamespaces restores the Namespace objects, and makes those namespaces that
// selected objects belong into.
func (r *run) openNamespaces(ctx context.Context) error {
	if err := r.listNamespaces(ctx); err != nil {
		return err
	}
	needed := r.neededNamespaces()
	selected := r.selectNamespaces(needed)
	var wg sync.WaitGroup
	work := func(do func()) {
		if !r.enter(ctx) {
			return
		}
		wg.Go(func() {
			defer r.leave()
			do()
		})
	}
	for _, e := range selected {
		target := r.places.target(e.Name)
		found, exists := r.namespaces.listed[target]
		if exists && !found.Deleting && e.claim() {
			work(func() { r.restoreEntry(ctx, task{kind: r.kinds[namespacesResource], entry: e, found: &found}) })
		} else {
			work(func() { r.namespace(ctx, target) })
		}
	}
	for original := range needed {
		work(func() { r.namespace(ctx, r.places.target(original)) })
	}
	wg.Wait()
	return nil
}

// listNamespaces learns which namespaces exist.
func (r *run) listNamespaces(ctx context.Context) error {
	r.namespaces.listed = map[string]list.Item{}
	kind := list.Kind{Resource: namespacesResource.WithVersion("v1"), Kind: "Namespace"}
	_, err := r.cluster.List(ctx, list.Request{Kind: kind}, list.Handler{Batch: func(batch *list.Batch) error {
		for _, item := range batch.AppendTo(nil) {
			r.namespaces.listed[item.Name] = item
		}
		batch.Release()
		return nil
	}})
	return err
}

// neededNamespaces returns the namespaces of the archive with objects that are
// going to be restored.
func (r *run) neededNamespaces() map[string]bool {
	needed := map[string]bool{}
	for _, k := range r.kinds {
		if k.never != "" || !k.isServed && r.promised[k.resource] == nil {
			continue
		}
		for e := range k.entries() {
			if e.selected && e.Namespace != "" {
				needed[e.Namespace] = true
			}
		}
	}
	return needed
}

// selectNamespaces selects Namespace objects. Of namespaces that are merged,
// the first has its object restored.
func (r *run) selectNamespaces(needed map[string]bool) []entry {
	k := r.kinds[namespacesResource]
	if k == nil {
		return nil
	}
	var selected []entry
	taken := map[string]bool{}
	p := &planner{run: r}
	for e := range k.entries() {
		target := r.places.target(e.Name)
		if e.Namespace != "" || taken[target] {
			continue
		}
		labels, _ := p.labelsOf(e.Spooled, nil)
		if r.selection.ArchivesNamespace(selection.NamespaceObject{
			Name: e.Name, Labels: labels, Active: true, HasItems: needed[e.Name],
		}) {
			e.selected, taken[target] = true, true
			selected = append(selected, e)
		}
	}
	r.log.total.Add(int64(len(selected)))
	return selected
}

// openNamespace makes a namespace that does not exist, as it was archived.
func (r *run) openNamespace(ctx context.Context, name string) (fresh bool, err error) {
	found, exists := r.namespaces.listed[name]
	k, e := r.namespaceEntry(name)
	if exists && !found.Deleting {
		return false, r.recallNamespace(name, e.mark, found)
	}
	v := skipped("")
	if e.mark != nil && e.claim() {
		var known *list.Item
		if exists {
			known = &found
		}
		v = r.restoreEntry(ctx, task{kind: k, entry: e, found: known})
	}
	if v.outcome == Skipped {
		v = r.makeNamespace(ctx, name, exists, found)
	}
	if v.outcome == Failed {
		return false, fmt.Errorf("namespace %s is not there: %w", name, v.err)
	}
	return v.outcome == Created, nil
}

// recallNamespace reports a namespace that this restore made before it was
// interrupted, unless its object is restored for its own sake.
func (r *run) recallNamespace(name string, e *mark, found list.Item) error {
	if e != nil && (e.selected || !e.claim()) {
		return nil
	}
	existing := map[string]any{}
	if err := json.Unmarshal(found.JSON, &existing); err != nil {
		return fmt.Errorf("decoding namespace %s: %w", name, err)
	}
	if outcome, own := r.stamped(existing); own {
		r.log.total.Add(1)
		r.conclude(listed{key: "v1/Namespace", name: name}, name, did(outcome, nil))
	}
	if e != nil {
		r.related.finish(e)
	}
	return nil
}

// namespaceEntry returns the Namespace object for a namespace of the cluster.
// Another one that has its name in the archive, and is not selected, is none.
func (r *run) namespaceEntry(name string) (*kind, entry) {
	var first entry
	k := r.kinds[namespacesResource]
	if k == nil {
		return nil, first
	}
	for _, original := range r.places.from(name) {
		e, ok := k.find("", original)
		switch {
		case !ok || !r.selection.IncludesNamespace(original):
		case e.selected:
			return k, e
		case first.mark == nil:
			first = e
		}
	}
	return k, first
}

// makeNamespace makes a namespace whose object is not in the archive.
func (r *run) makeNamespace(ctx context.Context, name string, exists bool, found list.Item) verdict {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{
			clean.LabelBackupName: shortname.Label(r.req.BackupName), clean.LabelRestoreName: shortname.Label(r.req.RestoreName),
		}},
	}}
	gvr := schema.GroupVersionResource{Version: "v1", Resource: namespacesResource.Resource}
	it := &item{
		kind: &kind{resource: namespacesResource}, resource: namespacesResource, entry: entry{mark: &mark{}},
		object: object, archived: object.DeepCopy(),
		target: write.Target{Resource: gvr, Name: name}, listed: listed{key: "v1/Namespace", name: name},
	}
	it.kind.served.GVR = gvr
	r.log.total.Add(1)
	var v verdict
	if exists {
		v = r.meet(ctx, it, found)
	} else {
		v = r.create(ctx, it, Created)
	}
	if ctx.Err() == nil {
		r.conclude(it.listed, it.about(), v)
	}
	return v
}
