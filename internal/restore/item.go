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

	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/kube/write"
	"github.com/grapnel-dev/grapnel/internal/restore/compare"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/clean"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// task is an entry that somebody has claimed to restore it.
type task struct {
	kind  *kind
	entry entry
	// found is the object in the cluster, if it is known to exist.
	found *list.Item
	// place is that of the worker, nil if there is none to give away.
	place *place
	// depth is how many objects wait for this one, each because of the next.
	depth int
}

// item is one object on its way into the cluster.
type item struct {
	kind   *kind
	entry  entry
	place  *place
	depth  int
	target write.Target
	listed listed
	// resource of the target. Where an action made another one of it than that of the
	// kind, it was converted.
	resource  schema.GroupResource
	converted bool
	// found is the object in the cluster, if it is known to exist, in the version
	// foundIn.
	found   *list.Item
	foundIn schema.GroupVersionResource
	// unserved is why the object can not be restored unless an action converts it.
	unserved *refusal
	// object as it is to be created, and archived as it is in the archive.
	object, archived *unstructured.Unstructured
	// warnings are about the object if it is created, notes and late errors in any
	// case.
	warnings, notes []string
	late            []error
	// unasked are the actions of the request that the object concerns and that were
	// not asked, because it exists and stays as it is.
	unasked []string
	// refused is why an action does not want the object created.
	refused error
	// additional are restored before the object.
	additional []restoreaction.Ref
	// tries counts how often the object turned out to be in another state than
	// it was seen in.
	tries int
}

// about names the object in messages.
func (i *item) about() string { return i.target.String() }

// buffers are for the JSON of objects, which is decoded at once.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// restoreEntry restores an entry.
func (r *run) restoreEntry(ctx context.Context, t task) verdict {
	defer r.related.finish(t.entry.mark)
	if !t.entry.selected {
		r.log.total.Add(1)
	}
	it, v := r.prepare(ctx, t)
	if v.outcome == "" {
		v = r.bring(ctx, it)
	}
	if ctx.Err() != nil && v.outcome == Failed {
		return v // it did not fail, it was interrupted
	}
	t.entry.there = v.there()
	if v.refused != nil {
		r.log.refuse(*v.refused, 1)
		r.warn(it.listed, it.about(), it.notes)
		r.tellLate(it.listed, it.about(), it.late)
		return v
	}
	if v.wrote() && it.resource == definitionsResource {
		r.definitions.add(it.object)
	}
	v.warnings = slices.Concat(v.warnings, it.notes)
	v.late = it.late
	r.conclude(it.listed, it.about(), v)
	return v
}

// bring restores what a prepared object needs, shows it to the actions of the
// request, and brings it into the cluster.
func (r *run) bring(ctx context.Context, it *item) verdict {
	ask, err := r.toBeAsked(ctx, it)
	if err != nil {
		return failed(err)
	}
	r.restoreAdditional(ctx, it, it.additional)
	if ask {
		if v := r.ask(ctx, it); v.outcome != "" {
			return v
		}
	}
	if it.unserved != nil {
		if refused := r.refusal(ctx, it); refused != nil {
			return verdict{outcome: Failed, refused: refused}
		}
	}
	if it.found != nil && it.target.Resource == it.foundIn {
		return r.meet(ctx, it, *it.found)
	}
	return r.create(ctx, it, Created)
}

// prepare reads an object and makes of it what is to be created. The verdict
// has an outcome if that is the end of it.
func (r *run) prepare(ctx context.Context, t task) (*item, verdict) {
	k, e := t.kind, t.entry
	it := &item{kind: k, entry: e, place: t.place, depth: t.depth, resource: k.resource, found: t.found, foundIn: k.served.GVR}
	it.target = write.Target{Resource: k.resource.WithVersion(k.folder)}
	it.target.Namespace, it.target.Name = r.places.of(k, e.Spooled)
	it.listed = listed{key: k.resource.String(), namespace: it.target.Namespace, name: it.target.Name, kind: k, mark: e.mark}
	if rival, ok := r.places.rival(k, e); ok {
		return it, failed(fmt.Errorf("namespaces %s and %s are both mapped onto %s, and both have an object of this name",
			rival, e.Namespace, it.target.Namespace))
	}
	if err := r.read(it); err != nil {
		return it, failed(fmt.Errorf("the archive is damaged or was made by something else: %w", err))
	}
	if err := it.checkScope(); err != nil {
		return it, failed(err)
	}
	if refused := r.refusal(ctx, it); refused != nil {
		if it.unserved == nil || !r.mayConvert(it) {
			return it, verdict{outcome: Failed, refused: refused}
		}
	}
	return it, r.act(ctx, it)
}

// refusal returns why objects like this one cannot be restored, and nil if its
// version is served and its namespace is there.
func (r *run) refusal(ctx context.Context, it *item) *refusal {
	if it.unserved = r.notServedAs(it); it.unserved != nil {
		return it.unserved
	}
	if it.target.Namespace == "" {
		return nil
	}
	if err := r.namespace(ctx, it.target.Namespace).err; err != nil {
		return &refusal{it.resource, it.target.Namespace, err.Error()}
	}
	return nil
}

// read decodes an object and sees that it is what its place in the archive says.
func (r *run) read(it *item) error {
	buf, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	raw, err := r.req.Archive.Read(it.entry.Spooled, *buf)
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
		return fmt.Errorf("in the place of this object is %q of namespace %q", it.archived.GetName(), it.archived.GetNamespace())
	}
	gv, err := schema.ParseGroupVersion(it.archived.GetAPIVersion())
	switch {
	case err != nil:
		return err
	case gv.Group != it.kind.resource.Group || gv.Version == "" || it.archived.GetKind() == "":
		return fmt.Errorf("its apiVersion and kind are %q and %q", it.archived.GetAPIVersion(), it.archived.GetKind())
	}
	if annotations := field.Get[any](object, "metadata", "annotations"); annotations != nil {
		if _, ok := annotations.(map[string]any); !ok {
			return errors.New("metadata.annotations is no object")
		}
	}
	it.target.Resource = it.kind.resource.WithVersion(gv.Version)
	it.listed.key = gv.String() + "/" + it.archived.GetKind()
	it.object, err = clean.Copy(it.archived, r.labels)
	if err != nil {
		return err
	}
	it.object.SetName(it.target.Name)
	if it.target.Namespace != "" {
		it.object.SetNamespace(it.target.Namespace)
	}
	field.Prune(it.object.Object, []string{"metadata", "annotations"}, compare.Restored)
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

// notServedAs returns why objects in this version cannot be restored.
func (r *run) notServedAs(it *item) *refusal {
	if _, ok := r.servedIn(it.target.Resource); ok || slices.Contains(r.promised[it.resource], it.target.Resource.Version) {
		return nil
	}
	if !it.kind.isServed && r.promised[it.resource] == nil {
		return &refusal{resource: it.resource, reason: r.notServed(it.resource)}
	}
	reason := fmt.Sprintf("the cluster does not serve version %s of them", it.target.Resource.Version)
	if !r.req.UseVersions {
		reason += "; if the backup has other versions, restore with the choice of API group versions"
	}
	return &refusal{resource: it.resource, reason: reason}
}

// act asks the actions of the engine. The verdict has an outcome if one of them does not want
// the object restored.
func (r *run) act(ctx context.Context, it *item) verdict {
	if len(it.kind.actions) > 0 {
		it.kind.asked.Store(true)
	}
	shown := r.shown(it)
	for _, action := range it.kind.actions {
		result, err := action.Execute(ctx, shown)
		var refused *restoreaction.CreateError
		switch {
		case errors.As(err, &refused):
			it.refused = err
		case err != nil:
			return failed(fmt.Errorf("restore action %s: %w", action.Name(), err))
		case result.Skip != "":
			return skipped(result.Skip)
		}
		it.warnings = append(it.warnings, result.Warnings...)
		it.additional = append(it.additional, result.Additional...)
	}
	it.object = shown.Object
	return verdict{}
}

// shown returns an object as actions see it.
func (r *run) shown(it *item) *restoreaction.Item {
	return &restoreaction.Item{Resource: it.target.Resource, Object: it.object, Archived: it.archived, Run: r.actionRun}
}
