// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

const (
	// getsAtOnce bounds the requests for single objects.
	getsAtOnce = 16
	// getsPerList is the number of objects of one resource from which on a
	// LIST costs less than a GET for each.
	getsPerList = 100
	// maxExternal bounds the objects that external actions name in one run, beside those
	// that are in the archive when they are named: an endless list must not take all
	// memory.
	maxExternal = 200_000
)

// relatedKey identifies a related object.
type relatedKey struct {
	resource        schema.GroupResource
	namespace, name string
}

func (k relatedKey) key() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// relatedObject is an object that at least one other needs.
type relatedObject struct {
	relatedKey
	ref itemaction.Ref
	// neededBy is the first object that named it, for messages.
	neededBy string
}

// relatedSet has the objects that actions named. Each is handed out once, or once
// more if it is named with Always for the first time.
type relatedSet struct {
	mu sync.Mutex
	// known are the objects that were named, and whether with Always.
	known   map[relatedKey]bool
	pending []relatedObject
	// room is for how many objects more that external actions name; full says that there
	// was one too many.
	room int
	full bool
}

// add takes the references of what needs them. Of those that only external actions
// named there may be as many as there is room for; it reports whether one was turned away
// for the first time.
func (s *relatedSet) add(neededBy string, refs []itemaction.Ref, external bool) (filled bool) {
	if len(refs) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[relatedKey]bool{}
	}
	for _, ref := range refs {
		k := relatedKey{ref.Resource, ref.Namespace, ref.Name}
		always, twice := s.known[k]
		switch {
		case twice && (always || !ref.Always):
			continue
		case twice || !external:
		case s.room == 0:
			filled, s.full = filled || !s.full, true
			continue
		default:
			s.room--
		}
		s.known[k] = ref.Always
		s.pending = append(s.pending, relatedObject{k, ref, neededBy})
	}
	return filled
}

// addRelatedTo takes the objects that an action named for one of the batch.
func (c *collection) addRelatedTo(s *step, item *list.Item, refs []itemaction.Ref) {
	if s.external != nil {
		refs = c.acceptable(refs)
	}
	if len(refs) == 0 {
		return
	}
	if c.related.add(c.resource.GroupResource().String()+" "+item.Key, refs, s.external != nil) {
		c.results.Error(results.Run(), fmt.Errorf("the item actions of plugins, among them %s, named more than %d objects "+
			"that were not in the archive: the others of them may be missing from this backup", s.Name(), maxExternal))
	}
}

// acceptable returns those of the references of an external action that still have to
// be looked at.
func (r *run) acceptable(refs []itemaction.Ref) []itemaction.Ref {
	if len(refs) == 0 {
		return nil
	}
	out := make([]itemaction.Ref, 0, len(refs))
	for _, ref := range refs {
		resource, served := r.plan.cluster.For(ref.Resource)
		if served && !resource.Namespaced {
			ref.Namespace = "" // plugins tend to add that of the object
		}
		if !served || !r.archive.Has(identity(resource, ref.Namespace, ref.Name)) {
			out = append(out, ref)
		}
	}
	return out
}

// waiting reports whether something was added since the last time.
func (s *relatedSet) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending) > 0
}

// take returns what was added since the last time, sorted.
func (s *relatedSet) take() []relatedObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.pending
	s.pending = nil
	slices.SortFunc(out, func(a, b relatedObject) int {
		return cmp.Or(cmp.Compare(a.resource.String(), b.resource.String()),
			cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return out
}

// addRelated sends the objects that actions named, those that these need, and
// so on.
func (r *run) addRelated(ctx context.Context) error {
	r.addNewNamespaces()
	return r.addPending(ctx)
}

// addPending is addRelated for what was named already.
func (r *run) addPending(ctx context.Context) error {
	for {
		objects := r.related.take()
		if len(objects) == 0 {
			return nil
		}
		byResource := map[schema.GroupResource][]relatedObject{}
		for _, object := range objects {
			byResource[object.resource] = append(byResource[object.resource], object)
		}
		places := make(chan struct{}, getsAtOnce)
		var wg sync.WaitGroup
		for gr, objects := range byResource {
			wg.Go(func() { r.addRelatedOf(ctx, gr, objects, places) })
		}
		wg.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// addRelatedOf sends the named objects of one resource, if it may be in the
// backup.
func (r *run) addRelatedOf(ctx context.Context, gr schema.GroupResource, objects []relatedObject, places chan struct{}) {
	preferred, served := r.plan.cluster.For(gr)
	if !served {
		r.warnNotServed(gr, objects)
		return
	}
	if r.plan.selection.Resource(gr, preferred.Namespaced) == selection.Excluded {
		objects = slices.DeleteFunc(objects, func(o relatedObject) bool { return !o.ref.Always })
	}
	for _, resource := range r.versions(preferred) {
		c := &collection{run: r, resource: resource, actions: r.actionsFor(resource)}
		wanted := c.wanted(objects)
		if len(wanted) > getsPerList && !resource.Namespaced {
			wanted = c.pick(ctx, wanted)
		}
		var wg sync.WaitGroup
		for _, object := range wanted {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				c.addOne(ctx, object)
			})
		}
		wg.Wait()
		if kept := c.kept.Load(); kept > 0 {
			logr.FromContextOrDiscard(ctx).Info("Added objects that others need", "resource", gr.String(),
				"version", resource.GVR.Version, "count", kept)
		}
	}
}

// warnNotServed says that objects cannot be added because of their kind.
func (r *run) warnNotServed(gr schema.GroupResource, objects []relatedObject) {
	for _, object := range objects {
		if !object.ref.Optional {
			r.results.Warn(results.Object(object.namespace), fmt.Sprintf(
				"%s %q, which %s needs, cannot be archived: the cluster does not serve %s, or it is never archived",
				gr, object.key(), object.neededBy, gr))
		}
	}
}

// wanted leaves out what is in the archive already or may not be in it.
func (c *collection) wanted(objects []relatedObject) []relatedObject {
	c.always = map[string]struct{}{}
	var out []relatedObject
	for _, object := range objects {
		if (object.namespace != "") != c.resource.Namespaced {
			c.warnScope(object)
			continue
		}
		if object.namespace != "" && !object.ref.Always && !c.plan.selection.IncludesNamespace(object.namespace) {
			continue
		}
		if c.archive.Has(identity(c.resource, object.namespace, object.name)) {
			continue
		}
		if object.ref.Always {
			c.always[object.key()] = struct{}{}
		}
		if n := len(out); n > 0 && out[n-1].relatedKey == object.relatedKey {
			continue // named with Always too, and sorted
		}
		out = append(out, object)
	}
	return out
}

// warnScope says that an object cannot exist as it was named.
func (c *collection) warnScope(object relatedObject) {
	if object.ref.Optional || !c.resource.Preferred {
		return
	}
	which := "has a namespace, and was named with none"
	if !c.resource.Namespaced {
		which = "has no namespace, and was named with one"
	}
	c.results.Warn(results.Object(object.namespace), fmt.Sprintf(
		"%s %q, which %s needs, does not exist: the kind %s", c.resource.GroupResource(), object.key(), object.neededBy, which))
}

// pick sends the wanted objects from one LIST, and returns those that it did
// not have.
func (c *collection) pick(ctx context.Context, wanted []relatedObject) []relatedObject {
	missing := make(map[string]relatedObject, len(wanted))
	for _, object := range wanted {
		missing[object.key()] = object
	}
	req := c.request("")
	req.LabelSelector = ""
	_, err := c.cluster.List(ctx, req, list.Handler{Batch: func(batch *list.Batch) error {
		kept := batch.Items[:0]
		for _, item := range batch.Items {
			if _, ok := missing[item.Key]; ok {
				delete(missing, item.Key)
				kept = append(kept, item)
			}
		}
		batch.Items = kept
		return c.takeRelated(ctx, batch)
	}})
	if err != nil && ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Info("Reading objects one by one because their list failed",
			"resource", c.resource.GVR.String(), "reason", err.Error())
	}
	left := wanted[:0]
	for _, object := range wanted {
		if _, ok := missing[object.key()]; ok {
			left = append(left, object)
		}
	}
	return left
}

// addOne sends one object.
func (c *collection) addOne(ctx context.Context, object relatedObject) {
	if object.ref.Item != nil && c.resource.Preferred {
		_ = c.takeRelated(ctx, list.BatchOf(*object.ref.Item))
		return
	}
	item, err := c.cluster.Get(ctx, kindOf(c.resource), object.namespace, object.name)
	gr := c.resource.GroupResource()
	switch {
	case err == nil:
		_ = c.takeRelated(ctx, list.BatchOf(item)) // fails only if the run has ended
	case ctx.Err() != nil:
	case !apierrors.IsNotFound(err):
		c.results.Error(results.Object(object.namespace), fmt.Errorf(
			"%s %q, which %s needs, is missing from this backup: %w", gr, object.key(), object.neededBy, err))
		logr.FromContextOrDiscard(ctx).Error(err, "Failed reading an object that others need",
			"resource", gr.String(), "name", object.key())
	case !object.ref.Optional:
		c.results.Warn(results.Object(object.namespace), fmt.Sprintf(
			"%s %q, which %s needs, does not exist", gr, object.key(), object.neededBy))
	}
}

// takeRelated is take for related objects, to which label selectors do not
// apply.
func (c *collection) takeRelated(ctx context.Context, batch *list.Batch) error {
	kept := batch.Items[:0]
	for _, item := range batch.Items {
		_, always := c.always[item.Key]
		if item.Deleting && c.req.only() {
			c.results.Warn(results.Object(item.Namespace), fmt.Sprintf(
				"%s %q is being deleted and was not archived again", c.resource.GroupResource(), item.Key))
		}
		if !item.Deleting && (always || !excluded(item)) && c.archive.Claim(identity(c.resource, item.Namespace, item.Name)) {
			kept = append(kept, item)
		}
	}
	return c.deliver(ctx, batch, kept)
}

// addNewNamespaces names the namespaces that appeared after the plan was made
// and have objects in the backup.
func (r *run) addNewNamespaces() {
	if r.plan.selection.Resource(namespaces.GroupResource(), false) != selection.Included {
		return
	}
	known := make(map[string]struct{}, len(r.plan.namespaces))
	for _, item := range r.plan.namespaces {
		known[item.Name] = struct{}{}
	}
	r.inhabited.Range(func(key, _ any) bool {
		name, _ := key.(string)
		if _, ok := known[name]; !ok && name != "" {
			r.related.add(namespaces.GroupResource().String()+" "+name, []itemaction.Ref{{
				Resource: namespaces.GroupResource(), Name: name,
			}}, false)
		}
		return true
	})
}

// addNamespaces sends the Namespace objects themselves.
func (r *run) addNamespaces(ctx context.Context) error {
	c := &collection{run: r, resource: namespaces, actions: r.actionsFor(namespaces)}
	var selected []list.Item
	for _, item := range r.plan.namespaces {
		labels, err := item.Labels()
		if err != nil {
			return err
		}
		_, inhabited := r.inhabited.Load(item.Name)
		if r.plan.selection.ArchivesNamespace(selection.NamespaceObject{
			Name: item.Name, Labels: labels, Active: !item.Deleting, HasItems: inhabited,
		}) && r.archive.Claim(identity(namespaces, "", item.Name)) {
			selected = append(selected, item)
		}
	}
	return c.deliver(ctx, list.BatchOf(selected...), selected)
}
