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
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

var (
	crdResource       = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	namespaceResource = schema.GroupResource{Resource: "namespaces"}
)

// planner plans a run for one discovery of the cluster.
type planner struct {
	*enginePass
	resolver         *nameResolver
	hasLabelSelector bool
}

// newPlanner compiles the selection.
func (r *enginePass) newPlanner() (*planner, error) {
	archived := map[schema.GroupResource]bool{}
	existing := map[string]bool{}
	for _, resource := range r.req.Archive.Resources() {
		gr := schema.ParseGroupResource(resource.Name)
		for _, item := range r.archivedObjects(resource, r.defaultStoredVersion(resource)).All() {
			if gr == namespaceResource {
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
	p := &planner{enginePass: r, resolver: newNameResolver(r.served, archived)}
	p.hasLabelSelector = r.req.Selection.LabelSelector != nil || len(r.req.Selection.OrLabelSelectors) > 0
	spec := r.req.Selection
	spec.OrderedResources, spec.FromBackup = nil, true
	compiled, err := selection.Compile(spec, p.resolver, slices.Sorted(maps.Keys(existing)))
	if err != nil {
		return nil, err
	}
	r.selection = compiled
	r.namespaceMapping = newNamespaceMapping(slices.Sorted(maps.Keys(existing)), r.req.NamespaceMapping)
	return p, nil
}

// defaultStoredVersion returns the stored version of a resource, unless a version is
// chosen.
func (r *enginePass) defaultStoredVersion(resource archive.Resource) string {
	if r.req.Archive.Objects(resource.Name, "").Len() > 0 {
		return ""
	}
	return resource.Preferred
}

func (r *enginePass) archivedObjects(resource archive.Resource, directory string) archive.Objects {
	return r.req.Archive.Objects(resource.Name, directory)
}

// makePlan plans everything that is not planned yet, which are all kinds except
// CustomResourceDefinitions.
func (r *enginePass) makePlan(ctx context.Context) error {
	p, err := r.newPlanner()
	if err != nil {
		return err
	}
	for _, warning := range r.selection.UnmatchedWarnings() {
		r.recordRunWarning(results.ReasonNoMatch, warning)
	}
	if len(r.req.Archive.Resources()) == 0 {
		r.recordRunWarning(results.ReasonEmpty, "there are no objects in the archive")
	}
	selected := 0
	for _, resource := range r.req.Archive.Resources() {
		gr := schema.ParseGroupResource(resource.Name)
		k := r.kinds[gr]
		if k == nil {
			if k, err = p.planResource(ctx, resource); err != nil {
				return err
			}
			r.kinds[gr] = k
			r.outcomes.total.Add(int64(k.countSelected()))
		}
		selected += k.countSelected()
	}
	p.allPlanned = true
	p.warnAboutUnusedSettings()
	loggerFrom(ctx).Info("Restoring objects", "resources", len(r.kinds), "objects", selected)
	return nil
}

// planResource plans one resource.
func (p *planner) planResource(ctx context.Context, resource archive.Resource) (*kind, error) {
	gr := schema.ParseGroupResource(resource.Name)
	k := &kind{
		resource: gr, namespaced: p.resolver.scopes[gr], neverReason: action.NeverRestoredReason(gr),
		actions: actionsForResource(p.actions, gr), normalizers: actionsForResource(p.normalizers, gr), pluginActions: p.pluginActionsForResource(gr),
		withStatus: p.resolver.matchesStatusFilter(p.req.RestoreStatus, gr),
		crdCreated: p.writtenCRDs.definesResource(gr),
	}
	k.inclusion = p.selection.ResourceInclusion(gr, k.namespaced)
	if k.inclusion == selection.Excluded && !k.isForActionsOnly() {
		return k, nil
	}
	k.storedVersion = p.defaultStoredVersion(resource)
	if p.req.UseVersions && len(resource.Versions) > 0 {
		p.chooseVersion(ctx, k, resource)
	}
	if err := p.addEntries(ctx, k, resource); err != nil {
		return nil, err
	}
	p.resolveServed(k)
	return k, nil
}

// chooseVersion picks the version of a resource.
func (p *planner) chooseVersion(ctx context.Context, k *kind, resource archive.Resource) {
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
	k.storedVersion = choice.Version
	loggerFrom(ctx).Info("Chose a version", "resource", resource.Name, "version", choice.Version,
		"rule", choice.Rule, "reason", choice.Reason)
}

// addEntries finds the objects of a resource that may be restored.
func (p *planner) addEntries(ctx context.Context, k *kind, resource archive.Resource) error {
	k.objects = p.archivedObjects(resource, k.storedVersion)
	k.statuses = make([]itemStatus, k.objects.Len())
	for i, item := range k.objects.All() {
		k.statuses[i].inScope = p.isInScope(item.Namespace)
	}
	var buf []byte
	for e := range k.entriesInScope() {
		e.selected = k.inclusion == selection.Included && k.resource != namespaceResource
		if !e.selected || !p.hasLabelSelector {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("planning the restore: %w", context.Cause(ctx))
		}
		var labels map[string]string
		labels, buf = p.readObjectLabels(e.SpooledObject, buf)
		e.selected = p.selection.MatchesLabels(labels)
	}
	return nil
}

// hasSelectedObjects reports whether the selection includes an object of a resource.
func (p *planner) hasSelectedObjects(gr schema.GroupResource, objects archive.Objects) bool {
	if p.selection.ResourceInclusion(gr, p.resolver.scopes[gr]) != selection.Included {
		return false
	}
	var buf []byte
	for _, item := range objects.All() {
		if !p.isInScope(item.Namespace) {
			continue
		}
		var labels map[string]string
		labels, buf = p.readObjectLabels(item, buf)
		if p.selection.MatchesLabels(labels) {
			return true
		}
	}
	return false
}

func (p *planner) isInScope(namespace string) bool {
	return namespace == "" || p.selection.IncludesNamespace(namespace)
}

// objectHead is the part of some objects that the plan needs.
type objectHead struct {
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

// readObjectHead returns the head of an object. The head of an unreadable object is empty;
// the object fails when it is restored.
func (p *planner) readObjectHead(item archive.SpooledObject, buf []byte) (objectHead, []byte) {
	var h objectHead
	raw, err := p.req.Archive.Read(item, buf)
	if err != nil {
		return h, buf
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return objectHead{}, raw
	}
	return h, raw
}

func (p *planner) readObjectLabels(item archive.SpooledObject, buf []byte) (map[string]string, []byte) {
	h, buf := p.readObjectHead(item, buf)
	return h.Metadata.Labels, buf
}

// resolveServed looks up the resource in the discovery.
func (p *planner) resolveServed(k *kind) {
	if k.isEmpty() {
		return
	}
	k.served, k.isServed = p.served.PreferredVersion(k.resource)
	if !k.isServed {
		return
	}
	wanted := k.storedVersion
	if wanted == "" {
		first, _ := p.readObjectHead(k.objects.At(0), nil)
		gv, err := schema.ParseGroupVersion(first.APIVersion)
		if err != nil {
			return
		}
		wanted = gv.Version
	}
	if served, ok := p.findServedVersion(k.resource.WithVersion(wanted)); ok {
		k.served = served
	}
}

// findServedVersion returns a resource in one version.
func (r *enginePass) findServedVersion(gvr schema.GroupVersionResource) (discovery.Resource, bool) {
	versions := r.served.Versions[gvr.GroupResource()]
	at := slices.IndexFunc(versions, func(v discovery.Resource) bool { return v.GVR == gvr })
	if at < 0 {
		return discovery.Resource{}, false
	}
	return versions[at], true
}
