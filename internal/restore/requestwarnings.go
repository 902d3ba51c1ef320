// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/results"
)

// warnAboutUnusedSettings warns about settings that have no effect.
func (p *planner) warnAboutUnusedSettings() {
	p.warnAboutNamespaceMapping()
	p.warnAboutRestoreOrder()
	p.warnAboutVersionPriorities()
}

// warnAboutNamespaceMapping warns about entries of the namespace mapping that have no
// effect.
func (p *planner) warnAboutNamespaceMapping() {
	for _, original := range slices.Sorted(maps.Keys(p.req.NamespaceMapping)) {
		switch {
		case !slices.Contains(p.namespaceMapping.originals, original):
			p.recordRunWarning(results.ReasonNoMatch, fmt.Sprintf("spec.namespaceMapping[%s]: the backup contains nothing of that namespace", original))
		case !p.selection.IncludesNamespace(original):
			p.recordRunWarning(results.ReasonNoMatch, fmt.Sprintf("spec.namespaceMapping[%s]: the namespace is not selected", original))
		}
	}
}

// warnAboutRestoreOrder warns about entries without a resource. Those of the default are
// for clusters with more than Kubernetes itself.
func (p *planner) warnAboutRestoreOrder() {
	order, usual := p.engine.opts.Order, DefaultOrder()
	for _, entry := range slices.Concat(order.High, order.Low) {
		if slices.Contains(usual.High, entry) || slices.Contains(usual.Low, entry) {
			continue
		}
		if _, ok := p.resolveOrderEntry(entry); !ok {
			p.recordRunWarning(results.ReasonNoMatch, fmt.Sprintf("the restore order names %q, which neither the backup nor the cluster has", entry))
		}
	}
}

// warnAboutVersionPriorities warns about priorities of versions that have no effect.
func (p *planner) warnAboutVersionPriorities() {
	if len(p.req.PrioritizedResources) > 0 && !p.req.UseVersions {
		p.recordRunWarning(results.ReasonNoMatch, "spec.apiVersionPriorities has no effect: versions are chosen only if the operator runs with "+
			"--features=EnableAPIGroupVersions, and did so when the backup was created")
		return
	}
	for _, resource := range p.req.PrioritizedResources {
		if p.kinds[schema.ParseGroupResource(resource)] == nil {
			p.recordRunWarning(results.ReasonNoMatch, fmt.Sprintf("spec.apiVersionPriorities names %q, and the backup has no objects of it; "+
				"write <resource>.<group>, for example deployments.apps", resource))
		}
	}
}
