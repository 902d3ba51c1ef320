// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// namespaceResource is the only kind that every cluster has and every backup reads.
var namespaceResource = discovery.Resource{
	GVR:       schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
	Kind:      "Namespace",
	Preferred: true,
}

// podResource is the resource whose objects name claims.
var podResource = schema.GroupResource{Resource: "pods"}

// errIncompleteDiscovery is returned if discovery lacks what every cluster has. Clients
// treat a 404 for the core group, which a proxy may return, as an empty group.
var errIncompleteDiscovery = errors.New("discovering API resources: the API server lists no namespaces among them; " +
	"check what is between the operator and the API server, and back up again")

// plan is the data about the cluster before any kind is listed.
type plan struct {
	cluster   *discovery.Resources
	selection *selection.Selection
	// resources to be listed.
	resources []discovery.Resource
	// namespaces are all Namespace objects.
	namespaces []rawclient.Item
	// includedNamespaces are the names of the namespaces to list, and all reports that
	// there is no namespace filter.
	includedNamespaces []string
	allNamespaces      bool
	// hasLabelSelector reports that objects must match a label selector, and labels is the
	// one that the API server applies, if it can.
	hasLabelSelector bool
	labelSelector    string
	// resourceVersion is the resource version at which everything is read; see
	// resourceVersionFor.
	resourceVersion string
}

// resourceVersionFor returns the resource version at which to read a resource. With it, the
// archive is a snapshot of one moment: when the namespaces were listed. It has no cost
// (measured). If the API server cannot use it, because the version was compacted or another
// system stores the resource, the latest state is read. Events are commonly stored in a
// separate etcd, whose versions have another meaning.
func (p *plan) resourceVersionFor(gr schema.GroupResource) string {
	if gr.Resource == "events" && (gr.Group == "" || gr.Group == "events.k8s.io") {
		return ""
	}
	return p.resourceVersion
}

// makePlan discovers the cluster and compiles the selection.
func (r *enginePass) makePlan(ctx context.Context) error {
	p := &plan{}
	r.plan = p
	var (
		wg            sync.WaitGroup
		discoverErr   error
		namespacesErr error
	)
	wg.Go(func() {
		discoverErr = recoverPanic(func() (err error) {
			p.cluster, err = r.cluster.Discover(ctx)
			return err
		})
	})
	wg.Go(func() { namespacesErr = recoverPanic(func() error { return r.listNamespaceObjects(ctx) }) })
	wg.Wait()
	if discoverErr != nil {
		return discoverErr
	}
	if namespacesErr != nil {
		return namespacesErr
	}
	if _, served := p.cluster.PreferredVersion(namespaceResource.GroupResource()); !served {
		return errIncompleteDiscovery
	}
	if err := r.compileSelection(); err != nil {
		return err
	}
	if !r.req.hasOnlyItems() {
		r.reportUnmatchedNames()
	}
	r.reportFailedGroups(ctx)
	p.resources = p.cluster.FilterPreferred(func(gr schema.GroupResource, namespaced bool) bool {
		if r.req.OnlyClaims && gr != persistentVolumeClaims && (gr != podResource || !p.hasLabelSelector) {
			return false
		}
		return gr != namespaceResource.GroupResource() && p.selection.ResourceInclusion(gr, namespaced) == selection.Included
	})
	logr.FromContextOrDiscard(ctx).Info("Collecting objects", "kinds", len(p.resources),
		"namespaces", len(p.includedNamespaces), "allNamespaces", p.allNamespaces, "resourceVersion", p.resourceVersion)
	return nil
}

// reportUnmatchedNames records names in the include lists that match nothing. A namespace
// that does not exist is an error: a typo must not look like a good backup. A namespace
// that is deleted later is not an error: it existed when the backup began, and if the API
// server can read that moment, the archive has all of it.
func (r *enginePass) reportUnmatchedNames() {
	for _, warning := range r.plan.selection.UnmatchedWarnings() {
		r.results.Warn(results.Subject{}, results.ReasonNoMatch, warning)
	}
	for _, name := range r.plan.selection.MissingNamespaces() {
		r.recordError(results.About(namespaceResource.GroupResource(), "", name), results.ReasonNamespaceNotFound, fmt.Errorf("namespace %q does not exist, and spec.includedNamespaces names it; fix the name, "+
			"or include a pattern if the namespace may be missing", name))
	}
	for _, item := range r.plan.namespaces {
		if item.Deleting && slices.Contains(r.req.Selection.IncludedNamespaces, item.Name) {
			r.results.Warn(results.Subject{Namespace: item.Name}, results.ReasonBeingDeleted, fmt.Sprintf(
				"namespace %q is being deleted: objects that were deleted before the backup began are not in it", item.Name))
		}
	}
}

// listNamespaceObjects reads all Namespace objects.
func (r *enginePass) listNamespaceObjects(ctx context.Context) error {
	summary, err := r.cluster.List(ctx, rawclient.ListRequest{ResourceKind: toListKind(namespaceResource), Slots: r.listSlots}, rawclient.Handler{
		Batch: func(batch *rawclient.Batch) error {
			r.plan.namespaces = batch.AppendTo(r.plan.namespaces)
			batch.Release()
			return nil
		},
	})
	if err != nil {
		return err
	}
	r.plan.resourceVersion = summary.ResourceVersion
	return nil
}

func (r *enginePass) compileSelection() error {
	p := r.plan
	spec := r.req.Selection
	names := make([]string, 0, len(p.namespaces))
	for _, item := range p.namespaces {
		names = append(names, item.Name)
		labels, err := item.Labels()
		if err != nil {
			return err
		}
		if selection.IsExcludedByLabel(labels) {
			spec.OptedOutNamespaces = append(spec.OptedOutNamespaces, item.Name)
		}
	}
	compiled, err := selection.Compile(spec, p.cluster, names)
	if err != nil {
		return err
	}
	p.selection = compiled
	p.includedNamespaces, p.allNamespaces = compiled.IncludedNamespaces()
	if selectors := compiled.ListSelectors(); len(selectors) == 1 {
		p.labelSelector = selectors[0]
	}
	p.hasLabelSelector = spec.LabelSelector != nil || len(spec.OrLabelSelectors) > 0
	return nil
}

// reportFailedGroups records the API groups that could not be discovered and might have had
// objects to archive.
func (r *enginePass) reportFailedGroups(ctx context.Context) {
	for gv, err := range r.plan.cluster.Failed {
		if !r.canSelectGroup(gv.Group) {
			logr.FromContextOrDiscard(ctx).Info("Skipping an API group that is not selected and does not answer",
				"groupVersion", gv.String(), "reason", err.Error())
			continue
		}
		r.recordError(results.Subject{}, results.ReasonNotServed, fmt.Errorf(
			"API group version %s does not answer, its objects are missing from this backup: %w", gv, err))
	}
}

// canSelectGroup reports whether objects of a group, of which only the name is known, might
// have to be archived.
func (r *enginePass) canSelectGroup(group string) bool {
	if r.req.hasOnlyItems() {
		return slices.ContainsFunc(r.req.OnlyItems, func(ref itemaction.RelatedItem) bool { return ref.Resource.Group == group })
	}
	unknown := schema.GroupResource{Group: group, Resource: "unknown"}
	if r.plan.selection.ResourceInclusion(unknown, true) == selection.Included ||
		r.plan.selection.ResourceInclusion(unknown, false) == selection.Included {
		return true
	}
	spec := r.req.Selection
	for _, entry := range slices.Concat(spec.IncludedResources,
		spec.IncludedNamespaceScopedResources, spec.IncludedClusterScopedResources) {
		if _, known := r.plan.cluster.Resolve(entry); known || entry == "*" {
			continue
		}
		_, named, qualified := strings.Cut(entry, ".")
		if !qualified || strings.HasPrefix(group, named) {
			return true // it is unknown whether the entry means this group
		}
	}
	return false
}
