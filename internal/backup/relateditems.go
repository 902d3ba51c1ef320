// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

const (
	// maxConcurrentGets bounds the requests for single objects.
	maxConcurrentGets = 16
	// minItemsForList is the number of objects of one resource from which a LIST costs less
	// than a GET for each.
	minItemsForList = 100
	// maxExternalRefs bounds the objects that actions of plugins name in one run, apart
	// from those that are already in the archive: an endless list must not exhaust memory.
	maxExternalRefs = 200_000
)

// relatedKey identifies a related object.
type relatedKey struct {
	resource        schema.GroupResource
	namespace, name string
}

func (k relatedKey) namespacedName() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// relatedItem is an object that at least one other needs.
type relatedItem struct {
	relatedKey
	ref itemaction.RelatedItem
	// neededBy is the first object that named it, for messages.
	neededBy string
}

// relatedSet has the objects that actions named. Each is returned once, or once more if it
// is named with IgnoreSelection for the first time.
type relatedSet struct {
	mu sync.Mutex
	// requested are the named objects, and whether with IgnoreSelection.
	requested map[relatedKey]bool
	pending   []relatedItem
	// capacity is the number of further objects that actions of plugins may name; full
	// reports that it was exceeded.
	capacity   int
	overflowed bool
}

// addRelatedRefs adds the references of an object. The references that only actions of
// plugins named are limited by capacity; it reports whether one was dropped for the first
// time.
func (s *relatedSet) addRelatedRefs(neededBy string, refs []itemaction.RelatedItem, external bool) (filled bool) {
	if len(refs) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requested == nil {
		s.requested = map[relatedKey]bool{}
	}
	for _, ref := range refs {
		k := relatedKey{ref.Resource, ref.Namespace, ref.Name}
		always, twice := s.requested[k]
		switch {
		case twice && (always || !ref.IgnoreSelection):
			continue
		case twice || !external:
		case s.capacity == 0:
			filled, s.overflowed = filled || !s.overflowed, true
			continue
		default:
			s.capacity--
		}
		s.requested[k] = ref.IgnoreSelection
		s.pending = append(s.pending, relatedItem{k, ref, neededBy})
	}
	return filled
}

// addRelatedItems adds the objects that an action named for one object of the batch.
func (c *collection) addRelatedItems(s *resourceAction, item *rawclient.Item, refs []itemaction.RelatedItem) {
	if s.external != nil {
		refs = c.withoutArchivedRefs(refs)
	}
	if len(refs) == 0 {
		return
	}
	if c.related.addRelatedRefs(c.resource.GroupResource().String()+" "+item.Key, refs, s.external != nil) {
		c.recordError(results.Subject{}, results.ReasonNotBackedUp, fmt.Errorf("the item actions of plugins, among them %s, named more than %d objects "+
			"that were not in the archive: the others of them may be missing from this backup", s.Name(), maxExternalRefs))
	}
}

// withoutArchivedRefs returns the references of a plugin's action that are not in the
// archive yet.
func (r *enginePass) withoutArchivedRefs(refs []itemaction.RelatedItem) []itemaction.RelatedItem {
	if len(refs) == 0 {
		return nil
	}
	out := make([]itemaction.RelatedItem, 0, len(refs))
	for _, ref := range refs {
		resource, served := r.plan.cluster.PreferredVersion(ref.Resource)
		if served && !resource.Namespaced {
			ref.Namespace = "" // plugins tend to set that of the object
		}
		if !served || !r.archive.HasObject(archiveIdentity(resource, ref.Namespace, ref.Name)) {
			out = append(out, ref)
		}
	}
	return out
}

// hasPendingItems reports whether something was added since the last call of
// takePendingItems.
func (s *relatedSet) hasPendingItems() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending) > 0
}

// takePendingItems returns what was added since the last call, sorted.
func (s *relatedSet) takePendingItems() []relatedItem {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.pending
	s.pending = nil
	slices.SortFunc(out, func(a, b relatedItem) int {
		return cmp.Or(cmp.Compare(a.resource.String(), b.resource.String()),
			cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return out
}

// collectAllRelated sends the objects that actions named, those that these need, and so on.
func (r *enginePass) collectAllRelated(ctx context.Context) error {
	r.addNewNamespaceRefs()
	return r.collectPendingRelated(ctx)
}

// collectPendingRelated is collectAllRelated for the objects named so far.
func (r *enginePass) collectPendingRelated(ctx context.Context) error {
	for {
		objects := r.related.takePendingItems()
		if len(objects) == 0 {
			return nil
		}
		byResource := map[schema.GroupResource][]relatedItem{}
		for _, object := range objects {
			byResource[object.resource] = append(byResource[object.resource], object)
		}
		places := make(chan struct{}, maxConcurrentGets)
		var wg sync.WaitGroup
		for gr, objects := range byResource {
			wg.Go(func() {
				if err := recoverPanic(func() error { r.collectRelatedResource(ctx, gr, objects, places); return nil }); err != nil {
					r.recordError(results.About(gr, "", ""), results.ReasonNotBackedUp, fmt.Errorf("objects of %s that others need may be missing from this backup: %w", gr, err))
				}
			})
		}
		wg.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// collectRelatedResource sends the named objects of one resource, if they may be in the
// backup.
func (r *enginePass) collectRelatedResource(ctx context.Context, gr schema.GroupResource, objects []relatedItem, places chan struct{}) {
	preferred, served := r.plan.cluster.PreferredVersion(gr)
	if !served {
		r.warnNotServed(gr, objects)
		return
	}
	if r.plan.selection.ResourceInclusion(gr, preferred.Namespaced) == selection.Excluded {
		objects = slices.DeleteFunc(objects, func(o relatedItem) bool { return !o.ref.IgnoreSelection })
	}
	for _, resource := range r.archivedVersions(preferred) {
		c := &collection{enginePass: r, resource: resource, actions: r.actionsForResource(resource)}
		wanted := c.filterRelated(objects)
		if len(wanted) > minItemsForList && !resource.Namespaced {
			wanted = c.collectRelatedByList(ctx, wanted)
		}
		var wg sync.WaitGroup
		for _, object := range wanted {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				if err := recoverPanic(func() error { return c.collectOneRelatedItem(ctx, object) }); err != nil && ctx.Err() == nil {
					c.recordRelatedError(ctx, object, err)
				}
			})
		}
		wg.Wait()
		if kept := c.selectedCount.Load(); kept > 0 {
			logr.FromContextOrDiscard(ctx).Info("Added objects that others need", "resource", gr.String(),
				"version", resource.GVR.Version, "count", kept)
		}
	}
}

// warnNotServed warns that objects cannot be added because of their kind.
func (r *enginePass) warnNotServed(gr schema.GroupResource, objects []relatedItem) {
	for _, object := range objects {
		if !object.ref.Optional {
			r.results.Warn(results.About(gr, object.namespace, object.name), results.ReasonNotServed, fmt.Sprintf(
				"%s %q, which %s needs, cannot be archived: the cluster does not serve %s, or it is never archived",
				gr, object.namespacedName(), object.neededBy, gr))
		}
	}
}

// filterRelated drops objects that are already in the archive or must not be in it.
func (c *collection) filterRelated(objects []relatedItem) []relatedItem {
	c.alwaysIncluded = map[string]struct{}{}
	var out []relatedItem
	for _, object := range objects {
		if (object.namespace != "") != c.resource.Namespaced {
			c.warnScopeMismatch(object)
			continue
		}
		if object.namespace != "" && !object.ref.IgnoreSelection && !c.plan.selection.IncludesNamespace(object.namespace) {
			continue
		}
		if c.archive.HasObject(archiveIdentity(c.resource, object.namespace, object.name)) {
			continue
		}
		if object.ref.IgnoreSelection {
			c.alwaysIncluded[object.namespacedName()] = struct{}{}
		}
		if n := len(out); n > 0 && out[n-1].relatedKey == object.relatedKey {
			continue // also named with IgnoreSelection, and sorted
		}
		out = append(out, object)
	}
	return out
}

// warnScopeMismatch warns that an object cannot exist as named.
func (c *collection) warnScopeMismatch(object relatedItem) {
	if object.ref.Optional || !c.resource.Preferred {
		return
	}
	which := "has a namespace, and was named with none"
	if !c.resource.Namespaced {
		which = "has no namespace, and was named with one"
	}
	c.results.Warn(c.subject(object.namespace, object.name), results.ReasonRelatedItemNotFound, fmt.Sprintf(
		"%s %q, which %s needs, does not exist: the kind %s", c.resource.GroupResource(), object.namespacedName(), object.neededBy, which))
}

// collectRelatedByList sends the wanted objects from one LIST, and returns those that are
// not in it.
func (c *collection) collectRelatedByList(ctx context.Context, wanted []relatedItem) []relatedItem {
	missing := make(map[string]relatedItem, len(wanted))
	for _, object := range wanted {
		missing[object.namespacedName()] = object
	}
	req := c.newListRequest("")
	req.LabelSelector = ""
	_, err := c.cluster.List(ctx, req, rawclient.Handler{Batch: func(batch *rawclient.Batch) error {
		kept := batch.Items[:0]
		for _, item := range batch.Items {
			if _, ok := missing[item.Key]; ok {
				delete(missing, item.Key)
				kept = append(kept, item)
			}
		}
		batch.Items = kept
		return c.sendRelatedItems(ctx, batch)
	}})
	if err != nil && ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Info("Reading objects one by one because their list failed",
			"resource", c.resource.GVR.String(), "reason", err.Error())
	}
	left := wanted[:0]
	for _, object := range wanted {
		if _, ok := missing[object.namespacedName()]; ok {
			left = append(left, object)
		}
	}
	return left
}

// collectOneRelatedItem sends one object. The error means that the object could not be
// read, or that the run has ended.
func (c *collection) collectOneRelatedItem(ctx context.Context, object relatedItem) error {
	if object.ref.Item != nil && c.resource.Preferred {
		return c.sendRelatedItems(ctx, rawclient.NewBatch(*object.ref.Item))
	}
	item, err := c.getWithRetry(ctx, object.namespace, object.name)
	switch {
	case err == nil:
		return c.sendRelatedItems(ctx, rawclient.NewBatch(item))
	case errors.Is(err, errResourceRemoved):
		c.recordListError(ctx, "", err)
		return nil
	case !apierrors.IsNotFound(err) || isKindNotFound(err):
		return err
	case !object.ref.Optional:
		c.results.Warn(c.subject(object.namespace, object.name), results.ReasonRelatedItemNotFound, fmt.Sprintf(
			"%s %q, which %s needs, does not exist", c.resource.GroupResource(), object.namespacedName(), object.neededBy))
	}
	return nil
}

// recordRelatedError records that an object that others need is not in the archive.
func (c *collection) recordRelatedError(ctx context.Context, object relatedItem, err error) {
	gr := c.resource.GroupResource()
	c.recordError(c.subject(object.namespace, object.name), results.ReasonNotBackedUp, fmt.Errorf(
		"%s %q, which %s needs, is missing from this backup: %w", gr, object.namespacedName(), object.neededBy, err))
	logr.FromContextOrDiscard(ctx).Error(err, "Failed reading an object that others need",
		"resource", gr.String(), "name", object.namespacedName())
}

// sendRelatedItems is sendSelectedItems for related objects, to which label selectors do
// not apply.
func (c *collection) sendRelatedItems(ctx context.Context, batch *rawclient.Batch) error {
	kept := batch.Items[:0]
	for _, item := range batch.Items {
		_, always := c.alwaysIncluded[item.Key]
		if item.Deleting && c.req.hasOnlyItems() {
			c.results.Warn(c.subject(item.Namespace, item.Name), results.ReasonBeingDeleted, fmt.Sprintf(
				"%s %q is being deleted and was not archived again", c.resource.GroupResource(), item.Key))
		}
		if !item.Deleting && (always || !isExcludedByLabel(item)) && c.archive.ReserveObject(archiveIdentity(c.resource, item.Namespace, item.Name)) {
			kept = append(kept, item)
		}
	}
	return c.runActionsAndSend(ctx, batch, kept)
}

// addNewNamespaceRefs adds the namespaces that were created after the plan and have objects
// in the backup.
func (r *enginePass) addNewNamespaceRefs() {
	if r.plan.selection.ResourceInclusion(namespaceResource.GroupResource(), false) != selection.Included {
		return
	}
	known := make(map[string]struct{}, len(r.plan.namespaces))
	for _, item := range r.plan.namespaces {
		known[item.Name] = struct{}{}
	}
	r.nonEmptyNamespaces.Range(func(key, _ any) bool {
		name, _ := key.(string)
		if _, ok := known[name]; !ok && name != "" {
			r.related.addRelatedRefs(namespaceResource.GroupResource().String()+" "+name, []itemaction.RelatedItem{{
				Resource: namespaceResource.GroupResource(), Name: name,
			}}, false)
		}
		return true
	})
}

// collectNamespaces sends the Namespace objects themselves.
func (r *enginePass) collectNamespaces(ctx context.Context) error {
	c := &collection{enginePass: r, resource: namespaceResource, actions: r.actionsForResource(namespaceResource)}
	var selected []rawclient.Item
	for _, item := range r.plan.namespaces {
		labels, err := item.Labels()
		if err != nil {
			return err
		}
		_, inhabited := r.nonEmptyNamespaces.Load(item.Name)
		if r.plan.selection.ShouldArchiveNamespace(selection.NamespaceObject{
			Name: item.Name, Labels: labels, Active: !item.Deleting, HasItems: inhabited,
		}) && r.archive.ReserveObject(archiveIdentity(namespaceResource, "", item.Name)) {
			selected = append(selected, item)
		}
	}
	return c.runActionsAndSend(ctx, rawclient.NewBatch(selected...), selected)
}
