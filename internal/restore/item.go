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

// item is one object on its way into the cluster.
type item struct {
	kind   *kind
	entry  entry
	target write.Target
	listed listed
	// object as it is to be created, and archived as it is in the archive.
	object, archived *unstructured.Unstructured
	// warnings are about the object if it is created.
	warnings []string
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

// restoreEntry restores an entry that the caller has claimed. With found, the
// object is known to exist.
func (r *run) restoreEntry(ctx context.Context, k *kind, e entry, found *list.Item) verdict {
	defer r.related.finish(e.mark)
	if !e.selected {
		r.log.total.Add(1)
	}
	it, v := r.prepare(ctx, k, e)
	if v.outcome == "" {
		r.restoreAdditional(ctx, it, found != nil)
		v = r.apply(ctx, it, found)
	}
	if ctx.Err() != nil && v.outcome == Failed {
		return v // it did not fail, it was interrupted
	}
	if v.refused != nil {
		r.log.refuse(*v.refused, 1)
		return v
	}
	if v.wrote() && k.resource == definitionsResource {
		r.definitions.add(it.object)
	}
	r.conclude(it.listed, it.about(), v)
	return v
}

// apply brings the object into the cluster.
func (r *run) apply(ctx context.Context, it *item, found *list.Item) verdict {
	if found != nil && it.target.Resource == it.kind.served.GVR {
		return r.meet(ctx, it, *found)
	}
	return r.create(ctx, it, Created)
}

// prepare reads an object and makes of it what is to be created. The verdict
// has an outcome if that is the end of it.
func (r *run) prepare(ctx context.Context, k *kind, e entry) (*item, verdict) {
	it := &item{kind: k, entry: e}
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
	if refused := r.unserved(it); refused != nil {
		return it, verdict{outcome: Failed, refused: refused}
	}
	if it.target.Namespace != "" {
		if err := r.namespace(ctx, it.target.Namespace).err; err != nil {
			return it, verdict{outcome: Failed, refused: &refusal{k.resource, it.target.Namespace, err.Error()}}
		}
	}
	return it, r.act(ctx, it)
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

// unserved returns why objects in this version cannot be restored.
func (r *run) unserved(it *item) *refusal {
	if _, ok := r.servedIn(it.target.Resource); ok || slices.Contains(r.promised[it.kind.resource], it.target.Resource.Version) {
		return nil
	}
	reason := fmt.Sprintf("the cluster does not serve version %s of them", it.target.Resource.Version)
	if !r.req.UseVersions {
		reason += "; if the backup has other versions, restore with the choice of API group versions"
	}
	return &refusal{resource: it.kind.resource, reason: reason}
}

// act asks the actions. The verdict has an outcome if one of them does not want
// the object restored.
func (r *run) act(ctx context.Context, it *item) verdict {
	if len(it.kind.actions) > 0 {
		it.kind.asked.Store(true)
	}
	shown := &restoreaction.Item{
		Resource: it.target.Resource, Object: it.object, Archived: it.archived, Run: r.actionRun,
	}
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
