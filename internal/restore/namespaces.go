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

	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// namespaceState is the state of a namespace of the cluster in a run.
type namespaceState struct {
	once sync.Once
	// created reports that this run created it: it was empty before.
	created bool
	// err is why nothing can be restored into it.
	err error
}

// namespaceTracker has the namespaces of the cluster by name.
type namespaceTracker struct {
	// existing are those that existed when the run began.
	existing map[string]rawclient.Item

	mu     sync.Mutex
	states map[string]*namespaceState
}

func (b *namespaceTracker) getState(name string) *namespaceState {
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

// ensureNamespace returns the state of a namespace, and creates it if it is missing.
func (r *enginePass) ensureNamespace(ctx context.Context, name string) *namespaceState {
	state := r.namespaces.getState(name)
	state.once.Do(func() {
		state.err = r.recoverAndLogPanic("namespaces "+name, func() (err error) {
			state.created, err = r.restoreOrCreateNamespace(ctx, name)
			return err
		})
	})
	return state
}

// restoreNamespaces restores the Namespace objects, and creates the namespaces of selected
// objects.
func (r *enginePass) restoreNamespaces(ctx context.Context) error {
	if err := r.listNamespaces(ctx); err != nil {
		return err
	}
	needed := r.neededNamespaces()
	selected := r.selectNamespaces(needed)
	var wg sync.WaitGroup
	work := func(do func()) {
		if !r.acquireWorkerSlot(ctx) {
			return
		}
		r.startGoroutine(&wg, func() {
			defer r.releaseWorkerSlot()
			do()
		})
	}
	for _, e := range selected {
		target := r.namespaceMapping.targetNamespace(e.Name)
		found, exists := r.namespaces.existing[target]
		if exists && !found.Deleting && e.tryStart() {
			work(func() {
				r.restoreEntry(ctx, startedEntry{kind: r.kinds[namespaceResource], entry: e, existing: &found})
			})
		} else {
			work(func() { r.ensureNamespace(ctx, target) })
		}
	}
	for original := range needed {
		work(func() { r.ensureNamespace(ctx, r.namespaceMapping.targetNamespace(original)) })
	}
	wg.Wait()
	return nil
}

// listNamespaces lists the existing namespaces.
func (r *enginePass) listNamespaces(ctx context.Context) error {
	r.namespaces.existing = map[string]rawclient.Item{}
	kind := rawclient.ResourceKind{Resource: namespaceResource.WithVersion("v1"), Kind: "Namespace"}
	_, err := r.cluster.List(ctx, rawclient.ListRequest{ResourceKind: kind}, rawclient.Handler{Batch: func(batch *rawclient.Batch) error {
		for _, item := range batch.AppendTo(nil) {
			r.namespaces.existing[item.Name] = item
		}
		batch.Release()
		return nil
	}})
	return err
}

// neededNamespaces returns the namespaces of the archive with objects that will be
// restored.
func (r *enginePass) neededNamespaces() map[string]bool {
	needed := map[string]bool{}
	for _, k := range r.kinds {
		if k.neverReason != "" || !k.isServed && r.dryRunCRDVersions[k.resource] == nil {
			continue
		}
		for e := range k.entriesInScope() {
			if e.selected && e.Namespace != "" {
				needed[e.Namespace] = true
			}
		}
	}
	return needed
}

// selectNamespaces selects Namespace objects. If namespaces are merged, the object of the
// first is restored.
func (r *enginePass) selectNamespaces(needed map[string]bool) []entry {
	k := r.kinds[namespaceResource]
	if k == nil {
		return nil
	}
	var selected []entry
	taken := map[string]bool{}
	p := &planner{enginePass: r}
	for e := range k.entriesInScope() {
		target := r.namespaceMapping.targetNamespace(e.Name)
		if e.Namespace != "" || taken[target] {
			continue
		}
		labels, _ := p.readObjectLabels(e.SpooledObject, nil)
		if r.selection.ShouldArchiveNamespace(selection.NamespaceObject{
			Name: e.Name, Labels: labels, Active: true, HasItems: needed[e.Name],
		}) {
			e.selected, taken[target] = true, true
			selected = append(selected, e)
		}
	}
	r.outcomes.total.Add(int64(len(selected)))
	return selected
}

// restoreOrCreateNamespace creates a missing namespace, as it was archived if possible.
func (r *enginePass) restoreOrCreateNamespace(ctx context.Context, name string) (fresh bool, err error) {
	found, exists := r.namespaces.existing[name]
	k, e := r.findNamespaceEntry(name)
	if exists && !found.Deleting {
		return false, r.adoptStampedNamespace(name, e.itemStatus, found)
	}
	v := skippedResult("")
	if e.itemStatus != nil && e.tryStart() {
		var known *rawclient.Item
		if exists {
			known = &found
		}
		v = r.restoreEntry(ctx, startedEntry{kind: k, entry: e, existing: known})
	}
	if v.outcome == Skipped {
		v = r.createNamespace(ctx, name, exists, found)
	}
	if v.outcome == Failed {
		return false, fmt.Errorf("namespace %s does not exist: %w", name, v.err)
	}
	return v.outcome == Created, nil
}

// adoptStampedNamespace reports a namespace that this restore created before it was
// interrupted, unless its object is selected.
func (r *enginePass) adoptStampedNamespace(name string, e *itemStatus, found rawclient.Item) error {
	if e != nil && (e.selected || !e.tryStart()) {
		return nil
	}
	existing := map[string]any{}
	if err := json.Unmarshal(found.JSON, &existing); err != nil {
		return fmt.Errorf("decoding namespace %s: %w", name, err)
	}
	target := rawclient.Target{Resource: namespaceResource.WithVersion("v1"), Name: name}
	about := listEntry{key: "v1/Namespace", name: name}
	outcome, own, foreign := r.readStamp(target, existing)
	if foreign {
		r.recordWarnings(target, results.ReasonItemAdjusted, []string{foreignStampWarning})
	}
	if own {
		r.outcomes.total.Add(1)
		r.recordOutcome(about, target, newItemResult(outcome, nil))
	}
	if e != nil {
		r.dependencies.markFinished(e)
	}
	return nil
}

// findNamespaceEntry returns the Namespace object for a namespace of the cluster. A
// different, unselected one with its name in the archive is not returned.
func (r *enginePass) findNamespaceEntry(name string) (*kind, entry) {
	var first entry
	k := r.kinds[namespaceResource]
	if k == nil {
		return nil, first
	}
	for _, original := range r.namespaceMapping.sourceNamespaces(name) {
		e, ok := k.findEntry("", original)
		switch {
		case !ok || !r.selection.IncludesNamespace(original):
		case e.selected:
			return k, e
		case first.itemStatus == nil:
			first = e
		}
	}
	return k, first
}

// createNamespace creates a namespace whose object is not in the archive.
func (r *enginePass) createNamespace(ctx context.Context, name string, exists bool, found rawclient.Item) itemResult {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{
			action.LabelBackupName: names.LabelValue(r.req.BackupName), action.LabelRestoreName: names.LabelValue(r.req.RestoreName),
		}},
	}}
	gvr := schema.GroupVersionResource{Version: "v1", Resource: namespaceResource.Resource}
	it := &item{
		kind: &kind{resource: namespaceResource}, resource: namespaceResource, entry: entry{itemStatus: &itemStatus{}},
		object: object, archived: object.DeepCopy(),
		target: rawclient.Target{Resource: gvr, Name: name}, listEntry: listEntry{key: "v1/Namespace", name: name},
	}
	it.kind.served.GVR = gvr
	r.outcomes.total.Add(1)
	var v itemResult
	if exists {
		v = r.compareItem(ctx, it, found)
	} else {
		v = r.createObject(ctx, it, Created)
	}
	if ctx.Err() == nil {
		r.recordOutcome(it.listEntry, it.target, v)
	}
	return v
}
