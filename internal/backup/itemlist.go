// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// neededByOperation is what wants the objects of Request.Only.
const neededByOperation = "an operation that has ended"

// hasOnlyItems reports whether nothing but Request.Only is archived.
func (r *ArchiveRequest) hasOnlyItems() bool { return len(r.OnlyItems) > 0 }

// collectOnlyItems sends the objects of Request.Only and what actions name beside them.
// Namespace objects come only if they are among those.
func (r *enginePass) collectOnlyItems(ctx context.Context) error {
	refs := make([]itemaction.RelatedItem, 0, len(r.req.OnlyItems))
	for _, ref := range r.req.OnlyItems {
		ref.IgnoreSelection = true
		if resource, served := r.plan.cluster.PreferredVersion(ref.Resource); served && !resource.Namespaced {
			ref.Namespace = "" // plugins tend to add that of another object
		}
		refs = append(refs, ref)
	}
	r.related.addRelatedRefs(neededByOperation, refs, false)
	return r.collectPendingRelated(ctx)
}
