// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// namespaces is the one kind that every cluster has and every backup reads.
var namespaces = discovery.Resource{
	GVR:       schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
	Kind:      "Namespace",
	Preferred: true,
}

// plan is what a run knows of the cluster before it lists any kind.
type plan struct {
	cluster   *discovery.Resources
	selection *selection.Selection
	// resources to be listed.
	resources []discovery.Resource
	// namespaces are all Namespace objects.
	namespaces []list.Item
	// included are the names of the namespaces to list, and all says that
	// there is no namespace filter.
	included []string
	all      bool
	// filtered says that objects must pass a label selector, and labels is the
	// one that the API server applies, if it can.
	filtered bool
	labels   string
	// version is the resource version at which everything is read; see
	// versionFor.
	version string
}

// versionFor returns the resource version at which a resource is to be read,
// which makes the archive a picture of one moment: the one at which the
// namespaces were listed. It costs nothing (measured), and where the API server
// cannot do it, because the version was compacted or another system stores the
// resource, the newest state is read. Events are commonly kept in an etcd of
// their own, whose versions mean something else.
func (p *plan) versionFor(gr schema.GroupResource) string {
	if gr.Resource == "events" && (gr.Group == "" || gr.Group == "events.k8s.io") {
		return ""
	}
	return p.version
}

// makePlan looks at the cluster and compiles the selection.
func (r *run) makePlan(ctx context.Context) error {
	p := &plan{}
	r.plan = p
	var (
		wg            sync.WaitGroup
		discoverErr   error
		namespacesErr error
	)
	wg.Go(func() { p.cluster, discoverErr = r.cluster.Discover(ctx) })
	wg.Go(func() { namespacesErr = r.listNamespaces(ctx) })
	wg.Wait()
	if discoverErr != nil {
		return discoverErr
	}
	if namespacesErr != nil {
		return namespacesErr
	}
	if err := r.compile(); err != nil {
		return err
	}
	if !r.req.only() {
		for _, warning := range p.selection.Unmatched() {
			r.results.Warn(results.Run(), warning)
		}
	}
	r.reportFailedGroups(ctx)
	p.resources = p.cluster.Collect(func(gr schema.GroupResource, namespaced bool) bool {
		return gr != namespaces.GroupResource() && p.selection.Resource(gr, namespaced) == selection.Included
	})
	logr.FromContextOrDiscard(ctx).Info("Collecting objects", "kinds", len(p.resources),
		"namespaces", len(p.included), "allNamespaces", p.all, "resourceVersion", p.version)
	return nil
}

// listNamespaces reads all Namespace objects.
func (r *run) listNamespaces(ctx context.Context) error {
	summary, err := r.cluster.List(ctx, list.Request{Kind: kindOf(namespaces), Places: r.places}, list.Handler{
		Batch: func(batch *list.Batch) error {
			r.plan.namespaces = batch.AppendTo(r.plan.namespaces)
			batch.Release()
			return nil
		},
	})
	if err != nil {
		return err
	}
	r.plan.version = summary.ResourceVersion
	return nil
}

func (r *run) compile() error {
	p := r.plan
	spec := r.req.Selection
	names := make([]string, 0, len(p.namespaces))
	for _, item := range p.namespaces {
		names = append(names, item.Name)
		labels, err := item.Labels()
		if err != nil {
			return err
		}
		if selection.ExcludedByLabel(labels) {
			spec.OptedOutNamespaces = append(spec.OptedOutNamespaces, item.Name)
		}
	}
	compiled, err := selection.Compile(spec, p.cluster, names)
	if err != nil {
		return err
	}
	p.selection = compiled
	p.included, p.all = compiled.Namespaces()
	if selectors := compiled.ListSelectors(); len(selectors) == 1 {
		p.labels = selectors[0]
	}
	p.filtered = spec.LabelSelector != nil || len(spec.OrLabelSelectors) > 0
	return nil
}

// reportFailedGroups records the API groups that could not be discovered and
// might have had objects to archive.
func (r *run) reportFailedGroups(ctx context.Context) {
	for gv, err := range r.plan.cluster.Failed {
		if !r.concerns(gv.Group) {
			logr.FromContextOrDiscard(ctx).Info("Passing over an API group that is not selected and does not answer",
				"groupVersion", gv.String(), "reason", err.Error())
			continue
		}
		r.results.Error(results.Run(), fmt.Errorf(
			"API group version %s does not answer, its objects are missing from this backup: %w", gv, err))
	}
}

// concerns reports whether objects of a group of which nothing is known but its
// name could have to be archived.
func (r *run) concerns(group string) bool {
	if r.req.only() {
		return slices.ContainsFunc(r.req.Only, func(ref itemaction.Ref) bool { return ref.Resource.Group == group })
	}
	unknown := schema.GroupResource{Group: group, Resource: "unknown"}
	if r.plan.selection.Resource(unknown, true) == selection.Included ||
		r.plan.selection.Resource(unknown, false) == selection.Included {
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
			return true // nobody can tell whether the entry means this group
		}
	}
	return false
}
