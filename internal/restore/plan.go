// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/clean"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

var (
	definitionsResource = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	namespacesResource  = schema.GroupResource{Resource: "namespaces"}
)

// planner makes the plan of a run for what the cluster serves at one moment.
type planner struct {
	*run
	names    *names
	filtered bool
}

// newPlanner compiles the selection.
func (r *run) newPlanner() (*planner, error) {
	archived := map[schema.GroupResource]bool{}
	existing := map[string]bool{}
	for _, resource := range r.req.Archive.Resources() {
		gr := schema.ParseGroupResource(resource.Name)
		for _, item := range r.objects(resource, r.folder(resource)).All() {
			if gr == namespacesResource {
				existing[item.Name] = true
			}
			if item.Namespace == "" {
				continue
			}
			archived[gr] = true
			existing[item.Namespace] = true
		}
		archived[gr] = archived[gr] || false
	}
	p := &planner{run: r, names: newNames(r.served, archived)}
	p.filtered = r.req.Selection.LabelSelector != nil || len(r.req.Selection.OrLabelSelectors) > 0
	spec := r.req.Selection
	spec.OrderedResources, spec.FromBackup = nil, true
	compiled, err := selection.Compile(spec, p.names, slices.Sorted(maps.Keys(existing)))
	if err != nil {
		return nil, err
	}
	r.selection = compiled
	r.places = newPlaces(slices.Sorted(maps.Keys(existing)), r.req.NamespaceMapping)
	return p, nil
}

// folder returns where the objects of a resource are, unless a version is
// chosen for them.
func (r *run) folder(resource archive.Resource) string {
	if r.req.Archive.Objects(resource.Name, "").Len() > 0 {
		return ""
	}
	return resource.Preferred
}

func (r *run) objects(resource archive.Resource, folder string) archive.Objects {
	return r.req.Archive.Objects(resource.Name, folder)
}

// makePlan plans everything that is not planned yet, which are all kinds but
// definitions.
func (r *run) makePlan(ctx context.Context) error {
	p, err := r.newPlanner()
	if err != nil {
		return err
	}
	for _, warning := range r.selection.Unmatched() {
		r.warnRun(warning)
	}
	if len(r.req.Archive.Resources()) == 0 {
		r.warnRun("there are no objects in the archive")
	}
	selected := 0
	for _, resource := range r.req.Archive.Resources() {
		gr := schema.ParseGroupResource(resource.Name)
		k := r.kinds[gr]
		if k == nil {
			if k, err = p.plan(ctx, resource); err != nil {
				return err
			}
			r.kinds[gr] = k
			r.log.total.Add(int64(k.countSelected()))
		}
		selected += k.countSelected()
	}
	p.planned = true
	p.check()
	logger(ctx).Info("Restoring objects", "resources", len(r.kinds), "objects", selected)
	return nil
}

// plan decides about one resource.
func (p *planner) plan(ctx context.Context, resource archive.Resource) (*kind, error) {
	gr := schema.ParseGroupResource(resource.Name)
	k := &kind{
		resource: gr, namespaced: p.names.scopes[gr], never: clean.NeverRestored(gr),
		actions: concerned(p.actions, gr), normal: concerned(p.normal, gr), outside: p.outsideOf(gr),
		withStatus: p.names.includes(p.req.RestoreStatus, gr),
		fresh:      p.definitions.has(gr),
	}
	k.inclusion = p.selection.Resource(gr, k.namespaced)
	if k.inclusion == selection.Excluded {
		return k, nil
	}
	k.folder = p.folder(resource)
	if p.req.UseVersions && len(resource.Versions) > 0 {
		p.choose(ctx, k, resource)
	}
	if err := p.addEntries(ctx, k, resource); err != nil {
		return nil, err
	}
	p.resolveServed(k)
	return k, nil
}

// choose picks the version of a resource.
func (p *planner) choose(ctx context.Context, k *kind, resource archive.Resource) {
	var target version.Versions
	for _, served := range p.served.Versions[k.resource] {
		target.All = append(target.All, served.GVR.Version)
		if served.Preferred {
			target.Preferred = served.GVR.Version
		}
	}
	choice := version.Choose(resource.Name, version.Versions{Preferred: resource.Preferred, All: resource.Versions},
		target, p.req.Priorities[resource.Name])
	p.choices[resource.Name] = choice
	k.folder = choice.Version
	logger(ctx).Info("Chose a version", "resource", resource.Name, "version", choice.Version,
		"rule", choice.Rule, "reason", choice.Reason)
}

// addEntries finds the objects of a resource that may be restored.
func (p *planner) addEntries(ctx context.Context, k *kind, resource archive.Resource) error {
	k.objects = p.objects(resource, k.folder)
	k.marks = make([]mark, k.objects.Len())
	for i, item := range k.objects.All() {
		k.marks[i].inScope = p.inScope(item.Namespace)
	}
	var buf []byte
	for e := range k.entries() {
		e.selected = k.inclusion == selection.Included && k.resource != namespacesResource
		if !e.selected || !p.filtered {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("planning the restore: %w", context.Cause(ctx))
		}
		var labels map[string]string
		labels, buf = p.labelsOf(e.Spooled, buf)
		e.selected = p.selection.MatchesLabels(labels)
	}
	return nil
}

// anySelected reports whether the selection has one of the objects of a
// resource.
func (p *planner) anySelected(gr schema.GroupResource, objects archive.Objects) bool {
	if p.selection.Resource(gr, p.names.scopes[gr]) != selection.Included {
		return false
	}
	var buf []byte
	for _, item := range objects.All() {
		if !p.inScope(item.Namespace) {
			continue
		}
		var labels map[string]string
		labels, buf = p.labelsOf(item, buf)
		if p.selection.MatchesLabels(labels) {
			return true
		}
	}
	return false
}

func (p *planner) inScope(namespace string) bool {
	return namespace == "" || p.selection.IncludesNamespace(namespace)
}

// head is what the plan must know of some objects.
type head struct {
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

// read returns the head of an object. One that cannot be read has none, and
// fails when it is restored.
func (p *planner) read(item archive.Spooled, buf []byte) (head, []byte) {
	var h head
	raw, err := p.req.Archive.Read(item, buf)
	if err != nil {
		return h, buf
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return head{}, raw
	}
	return h, raw
}

func (p *planner) labelsOf(item archive.Spooled, buf []byte) (map[string]string, []byte) {
	h, buf := p.read(item, buf)
	return h.Metadata.Labels, buf
}

// resolveServed finds the resource in what the cluster serves.
func (p *planner) resolveServed(k *kind) {
	if k.isEmpty() {
		return
	}
	k.served, k.isServed = p.served.For(k.resource)
	if !k.isServed {
		return
	}
	wanted := k.folder
	if wanted == "" {
		first, _ := p.read(k.objects.At(0), nil)
		gv, err := schema.ParseGroupVersion(first.APIVersion)
		if err != nil {
			return
		}
		wanted = gv.Version
	}
	if served, ok := p.servedIn(k.resource.WithVersion(wanted)); ok {
		k.served = served
	}
}

// servedIn returns a resource in one version.
func (r *run) servedIn(gvr schema.GroupVersionResource) (discovery.Resource, bool) {
	versions := r.served.Versions[gvr.GroupResource()]
	at := slices.IndexFunc(versions, func(v discovery.Resource) bool { return v.GVR == gvr })
	if at < 0 {
		return discovery.Resource{}, false
	}
	return versions[at], true
}
