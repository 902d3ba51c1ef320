// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// writeAll writes what is sent until there is no more. Its error is one of the
// archive as a whole.
func (r *run) writeAll() error {
	for p := range r.parcels {
		err := r.write(p)
		p.batch.Release()
		if err != nil {
			return err
		}
		r.progress()
	}
	return nil
}

// discard takes what is still being sent, so that no sender waits for ever.
func (r *run) discard() {
	for p := range r.parcels {
		p.batch.Release()
	}
}

func (r *run) write(p parcel) error {
	names := r.names[p.resource]
	for i := range p.batch.Items {
		item := &p.batch.Items[i]
		err := r.archive.Add(archive.Item{
			Identity: identity(p.resource, item.Namespace, item.Name),
			Claimed:  true,
			JSON:     item.JSON,
		})
		switch {
		case errors.Is(err, archive.ErrInvalidName):
			r.results.Error(results.Object(item.Namespace),
				fmt.Errorf("%s %q cannot be archived: %w", p.resource.GroupResource(), item.Key, err))
			continue
		case err != nil:
			return err
		}
		names = append(names, item.Key)
		r.written++
	}
	r.names[p.resource] = names
	return nil
}

func (r *run) progress() {
	if r.req.Progress != nil {
		r.req.Progress(max(int(r.expected.Load()), r.written), r.written)
	}
}

// warnIfEmpty warns about a backup with nothing in it, which is hardly what
// anybody wants.
func (r *run) warnIfEmpty() {
	if r.written > 0 {
		return
	}
	r.results.Warn(results.Run(), "The backup is empty: no object passes its selection ("+
		describe(r.req.Selection)+")")
}

// describe says in one line what a selection asks for.
func describe(spec selection.Spec) string {
	var parts []string
	for _, field := range []struct {
		name   string
		values []string
	}{
		{"includedNamespaces", spec.IncludedNamespaces},
		{"excludedNamespaces", spec.ExcludedNamespaces},
		{"includedResources", spec.IncludedResources},
		{"excludedResources", spec.ExcludedResources},
		{"includedClusterScopedResources", spec.IncludedClusterScopedResources},
		{"excludedClusterScopedResources", spec.ExcludedClusterScopedResources},
		{"includedNamespaceScopedResources", spec.IncludedNamespaceScopedResources},
		{"excludedNamespaceScopedResources", spec.ExcludedNamespaceScopedResources},
	} {
		if len(field.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s: %s", field.name, strings.Join(field.values, ", ")))
		}
	}
	selectors := spec.OrLabelSelectors
	if spec.LabelSelector != nil {
		selectors = []*metav1.LabelSelector{spec.LabelSelector}
	}
	for _, selector := range selectors {
		parts = append(parts, "label selector: "+metav1.FormatLabelSelector(selector))
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, "; ")
}

// result is called when nothing is written any more.
func (r *run) result() Result {
	out := Result{
		Items:        r.written,
		ResourceList: make(map[string][]string, len(r.names)),
		Volumes:      r.volumes.sorted(),
		Results:      r.results.Results(),
	}
	r.told.fill(&out)
	for resource, names := range r.names {
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		out.ResourceList[listKey(resource)] = names
	}
	return out
}

// listKey is the key of a resource in the resource list, as Velero writes it.
func listKey(resource discovery.Resource) string {
	return resource.GVR.GroupVersion().String() + "/" + resource.Kind
}

func compareVolumes(a, b Volume) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim))
}
