// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// writeBatches writes all batches. Its error is an error of the archive as a whole.
func (r *enginePass) writeBatches() error {
	for p := range r.batches {
		err := recoverPanic(func() error {
			defer r.reportProgress()
			return r.writeBatch(p)
		})
		p.batch.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// discardBatches receives the remaining batches, so that no sender blocks forever.
func (r *enginePass) discardBatches() {
	for p := range r.batches {
		p.batch.Release()
	}
}

func (r *enginePass) writeBatch(p resourceBatch) error {
	names := r.namesByResource[p.resource]
	for i := range p.batch.Items {
		item := &p.batch.Items[i]
		err := r.archive.AddObject(archive.Item{
			Identity: archiveIdentity(p.resource, item.Namespace, item.Name),
			Reserved: true,
			JSON:     item.JSON,
		})
		switch {
		case errors.Is(err, archive.ErrInvalidName), errors.Is(err, archive.ErrTooLarge):
			r.recordError(results.About(p.resource.GroupResource(), item.Namespace, item.Name), results.ReasonNotBackedUp,
				fmt.Errorf("%s %q cannot be archived: %w", p.resource.GroupResource(), item.Key, err))
			continue
		case errors.Is(err, archive.ErrLimitExceeded):
			return fmt.Errorf("%w; no Restore would accept it: select fewer objects, in several Backups, "+
				"or raise --max-archive-size if that is the limit", err)
		case err != nil:
			return err
		}
		names = append(names, item.Key)
		r.bytesByResource[p.resource] += int64(len(item.JSON))
		r.written++
	}
	r.namesByResource[p.resource] = names
	return nil
}

func (r *enginePass) reportProgress() {
	if r.req.Progress != nil {
		r.req.Progress(max(int(r.expected.Load()), r.written), r.written)
	}
}

// warnIfEmpty warns about an empty backup, which is rarely intended.
func (r *enginePass) warnIfEmpty() {
	if r.written > 0 {
		return
	}
	r.results.Warn(results.Subject{}, results.ReasonEmpty, "The backup is empty: no object matches its selection ("+
		describeSelection(r.req.Selection)+")")
}

// describeSelection describes a selection in one line.
func describeSelection(spec selection.Spec) string {
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

// buildArchiveResult must be called after everything is written.
func (r *enginePass) buildArchiveResult() ArchiveResult {
	out := ArchiveResult{
		Items:        r.written,
		ResourceList: make(map[string][]string, len(r.namesByResource)),
		Volumes:      r.reportClaims(),
	}
	r.reportPodHooks()
	out.Results = r.results.Results()
	if r.plan != nil && r.plan.selection != nil && !r.req.hasOnlyItems() {
		out.MissingNamespaces = r.plan.selection.MissingNamespaces()
	}
	r.reports.addReportsToResult(&out)
	for resource, names := range r.namesByResource {
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		out.ResourceList[resourceListKey(resource)] = names
		out.Results.Objects.Add(r.summarizeResource(resource, len(names)))
	}
	return out
}

// summarizeResource summarizes the archived objects of a resource in one version.
func (r *enginePass) summarizeResource(resource discovery.Resource, objects int) results.ResourceSummary {
	summary := results.ResourceSummary{
		Resource: resource.GroupResource().String(), Objects: objects, Bytes: r.bytesByResource[resource],
	}
	stored, _ := r.collectionTimes.Load(resource)
	if took, ok := stored.(time.Duration); ok {
		summary.Seconds = results.RoundSeconds(took)
	}
	return summary
}

// resourceListKey is the key of a resource in the resource list, as Velero writes it.
func resourceListKey(resource discovery.Resource) string {
	return resource.GVR.GroupVersion().String() + "/" + resource.Kind
}
