// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/stamp"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// startedEntry is an entry that a worker has claimed.
type startedEntry struct {
	kind  *kind
	entry entry
	// existing is the object in the cluster, if it is known to exist.
	existing *rawclient.Item
	// slot is that of the worker, nil if there is none to yield.
	slot *workerSlot
	// depth is the length of the chain of objects that wait for this one.
	depth int
}

// item is one object to be restored.
type item struct {
	kind      *kind
	entry     entry
	slot      *workerSlot
	depth     int
	target    rawclient.Target
	listEntry listEntry
	// resource of the target. If an action changed it from that of the kind, the object was
	// converted.
	resource  schema.GroupResource
	converted bool
	// existing is the object in the cluster, if it is known to exist, in the version
	// existingGVR.
	existing    *rawclient.Item
	existingGVR schema.GroupVersionResource
	// unserved is why the object cannot be restored unless an action converts it.
	unserved *refusal
	// object is the object to create, and archived the object in the archive.
	object, archived *unstructured.Unstructured
	// modifiedArchived is the archived object as modifiers change it; nil if they do not.
	modifiedArchived *unstructured.Unstructured
	// creationWarnings are about the object if it is created; unconditionalWarnings and
	// deferredErrors apply in any case.
	creationWarnings, unconditionalWarnings []string
	deferredErrors                          []error
	// skippedPluginActions are the matching actions of the request that were not called,
	// because the object exists and is not changed.
	skippedPluginActions []string
	// createAccepted reports that the API server would create the object if its name were
	// free, and deleted that the object with the name was deleted, to be replaced.
	createAccepted, deleted bool
	// createErr is why an action refuses to create the object.
	createErr error
	// relatedRefs are restored before the object.
	relatedRefs []itemaction.RelatedItem
	// hasOperation reports that an action started an operation for the object.
	hasOperation bool
	// comparisons counts how often the object was in another state than it was read in.
	comparisons int
}

// displayName names the object in messages.
func (i *item) displayName() string { return i.target.String() }

// jsonBuffers are for the JSON of objects, which is decoded immediately.
var jsonBuffers = sync.Pool{New: func() any { return new([]byte) }}

// restoreEntry restores an entry.
func (r *enginePass) restoreEntry(ctx context.Context, t startedEntry) itemResult {
	defer r.dependencies.markFinished(t.entry.itemStatus)
	if !t.entry.selected && t.kind.neverReason == "" {
		r.outcomes.total.Add(1)
	}
	it, v := r.newItem(t), itemResult{}
	if err := r.recoverAndLogPanic(it.displayName(), func() error {
		if v = r.prepareItem(ctx, it); v.outcome == "" {
			v = r.applyItem(ctx, it)
		}
		return nil
	}); err != nil {
		v = failedResult(err)
	}
	if ctx.Err() != nil && v.outcome == Failed && !it.deleted {
		return v // it was interrupted and did not fail
	}
	t.entry.exists = v.isPresent()
	if t.kind.neverReason != "" {
		// The wave of the kind counts its objects.
		r.recordWarnings(it.target, results.ReasonItemAdjusted, it.unconditionalWarnings)
		if v.err != nil {
			r.recordErrors(it.target, v.err)
		}
		r.recordErrors(it.target, it.deferredErrors...)
		return v
	}
	if v.refusal != nil {
		r.outcomes.addRefusal(*v.refusal, 1)
		r.recordWarnings(it.target, results.ReasonItemAdjusted, it.unconditionalWarnings)
		r.recordErrors(it.target, it.deferredErrors...)
		return v
	}
	if v.hasChanged() && it.resource == crdResource {
		r.writtenCRDs.addWrittenCRD(it.object)
	}
	r.recordPodHooks(it, v)
	v.warnings = slices.Concat(v.warnings, it.unconditionalWarnings)
	v.deferredErrors = it.deferredErrors
	r.recordOutcome(it.listEntry, it.target, v)
	return v
}

// applyItem restores the related items of a prepared object, calls the actions of the
// request for it, and writes it to the cluster.
func (r *enginePass) applyItem(ctx context.Context, it *item) itemResult {
	if it.kind.neverReason != "" {
		return r.applyNeverRestoredItem(ctx, it)
	}
	ask, err := r.shouldExecutePluginActions(ctx, it)
	if err != nil {
		return failedResult(err)
	}
	r.restoreRelatedItems(ctx, it, it.relatedRefs)
	if ask {
		if v := r.executePluginActions(ctx, it); v.outcome != "" {
			return v
		}
	}
	if err := r.modifyItem(ctx, it); err != nil {
		return failedResult(err)
	}
	r.refuseClaimWithoutData(it)
	if it.unserved != nil {
		if refused := r.checkRestorable(ctx, it); refused != nil {
			return itemResult{outcome: Failed, refusal: refused}
		}
	}
	if it.existing != nil && it.target.Resource == it.existingGVR {
		return r.compareItem(ctx, it, *it.existing)
	}
	return r.createObject(ctx, it, Created)
}

// applyNeverRestoredItem calls the actions of the request for an object of a resource that is never
// restored. It is called only if an action named the object: a content of a snapshot, for example,
// has the data that the action of a claim needs.
func (r *enginePass) applyNeverRestoredItem(ctx context.Context, it *item) itemResult {
	if v := r.executePluginActions(ctx, it); v.outcome != "" {
		return v
	}
	return skippedResult(it.kind.neverReason)
}

// newItem returns the item of an entry before it is read.
func (r *enginePass) newItem(t startedEntry) *item {
	k, e := t.kind, t.entry
	it := &item{kind: k, entry: e, slot: t.slot, depth: t.depth, resource: k.resource, existing: t.existing, existingGVR: k.served.GVR}
	it.target = rawclient.Target{Resource: k.resource.WithVersion(k.storedVersion)}
	it.target.Namespace, it.target.Name = r.namespaceMapping.targetNames(k, e.SpooledObject)
	it.listEntry = listEntry{key: k.resource.String(), namespace: it.target.Namespace, name: it.target.Name, kind: k, status: e.itemStatus}
	return it
}

// prepareItem reads an object and computes the object to create. The result has an outcome
// if the object is finished.
func (r *enginePass) prepareItem(ctx context.Context, it *item) itemResult {
	if rival, ok := r.namespaceMapping.conflictingSource(it.kind, it.entry); ok {
		return failedResult(fmt.Errorf("namespaces %s and %s are both mapped onto %s, and both have an object of this name",
			rival, it.entry.Namespace, it.target.Namespace))
	}
	if err := r.readArchivedObject(it); err != nil {
		return failedResult(fmt.Errorf("the archive is damaged or was made by something else: %w", err))
	}
	if err := it.checkScope(); err != nil {
		return failedResult(err)
	}
	if refused := r.checkRestorable(ctx, it); refused != nil {
		if it.unserved == nil || !r.canConvert(it) {
			return itemResult{outcome: Failed, refusal: refused}
		}
	}
	return r.executeEngineActions(ctx, it)
}

// checkRestorable returns why objects like this one cannot be restored, and nil if its
// version is served and its namespace exists.
func (r *enginePass) checkRestorable(ctx context.Context, it *item) *refusal {
	if it.unserved = r.refusalForVersion(it); it.unserved != nil {
		return it.unserved
	}
	if it.target.Namespace == "" {
		return nil
	}
	if err := r.ensureNamespace(ctx, it.target.Namespace).err; err != nil {
		return &refusal{it.resource, it.target.Namespace, err.Error()}
	}
	return nil
}

// readArchivedObject decodes an object and checks that it matches its path in the archive.
func (r *enginePass) readArchivedObject(it *item) error {
	buf, _ := jsonBuffers.Get().(*[]byte)
	defer jsonBuffers.Put(buf)
	raw, err := r.req.Archive.Read(it.entry.SpooledObject, *buf)
	if err != nil {
		return err
	}
	*buf = raw
	object := map[string]any{}
	if err := json.Unmarshal(raw, &object); err != nil {
		return fmt.Errorf("decoding the object: %w", err)
	}
	it.archived = &unstructured.Unstructured{Object: object}
	e := it.entry
	if it.archived.GetName() != e.Name || it.archived.GetNamespace() != e.Namespace {
		return fmt.Errorf("the file of this object contains %q of namespace %q", it.archived.GetName(), it.archived.GetNamespace())
	}
	gv, err := schema.ParseGroupVersion(it.archived.GetAPIVersion())
	switch {
	case err != nil:
		return err
	case gv.Group != it.kind.resource.Group || gv.Version == "" || it.archived.GetKind() == "":
		return fmt.Errorf("its apiVersion and kind are %q and %q", it.archived.GetAPIVersion(), it.archived.GetKind())
	}
	if annotations := action.Get[any](object, "metadata", "annotations"); annotations != nil {
		if _, ok := annotations.(map[string]any); !ok {
			return errors.New("metadata.annotations is not an object")
		}
	}
	it.target.Resource = it.kind.resource.WithVersion(gv.Version)
	it.listEntry.key = gv.String() + "/" + it.archived.GetKind()
	it.object, err = action.CopyForRestore(it.archived, r.labels)
	if err != nil {
		return err
	}
	it.object.SetName(it.target.Name)
	if it.target.Namespace != "" {
		it.object.SetNamespace(it.target.Namespace)
	}
	action.RemoveKeys(it.object.Object, []string{"metadata", "annotations"}, stamp.Annotation)
	return nil
}

// checkScope fails if the kind of the object has another scope in this cluster.
func (i *item) checkScope() error {
	switch hasNamespace := i.entry.Namespace != ""; {
	case !i.kind.isServed || i.kind.served.Namespaced == hasNamespace:
		return nil
	case hasNamespace:
		return errors.New("it has a namespace, which objects of its kind do not have in this cluster")
	default:
		return errors.New("it has no namespace, which objects of its kind have in this cluster")
	}
}

// refusalForVersion returns why objects in this version cannot be restored.
func (r *enginePass) refusalForVersion(it *item) *refusal {
	if _, ok := r.findServedVersion(it.target.Resource); ok || slices.Contains(r.dryRunCRDVersions[it.resource], it.target.Resource.Version) {
		return nil
	}
	if !it.kind.isServed && r.dryRunCRDVersions[it.resource] == nil {
		return &refusal{resource: it.resource, reason: r.notServedReason(it.resource)}
	}
	reason := fmt.Sprintf("the cluster does not serve version %s of them", it.target.Resource.Version)
	if !r.req.UseVersions {
		reason += "; if the backup has other versions, restore with the choice of API group versions"
	}
	return &refusal{resource: it.resource, reason: reason}
}

// executeEngineActions calls the actions of the engine. The result has an outcome if an
// action skips or fails the object.
func (r *enginePass) executeEngineActions(ctx context.Context, it *item) itemResult {
	if len(it.kind.actions) > 0 {
		it.kind.engineActionsExecuted.Store(true)
	}
	shown := r.newActionItem(it)
	for _, action := range it.kind.actions {
		result, err := action.Execute(ctx, shown)
		var refused *itemaction.CreationRefusedError
		switch {
		case errors.As(err, &refused):
			it.createErr = err
		case err != nil:
			return failedResult(fmt.Errorf("restore action %s: %w", action.Name(), err))
		case result.Skip != "":
			return skippedResult(result.Skip)
		}
		it.creationWarnings = append(it.creationWarnings, result.Warnings...)
		it.relatedRefs = append(it.relatedRefs, result.RelatedItems...)
	}
	it.object = shown.Object
	return itemResult{}
}

// newActionItem returns an object in the form for actions.
func (r *enginePass) newActionItem(it *item) *itemaction.RestoreItem {
	return &itemaction.RestoreItem{Resource: it.target.Resource, Object: it.object, Archived: it.archived, Restore: r.actionRun}
}
