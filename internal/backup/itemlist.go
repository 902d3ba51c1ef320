// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// neededByOperation is the origin of the objects of OnlyItems in messages.
const neededByOperation = "an operation that has ended"

// hasOnlyItems reports whether only OnlyItems are archived.
func (r *ArchiveRequest) hasOnlyItems() bool { return len(r.OnlyItems) > 0 }

// collectOnlyItems sends the objects of OnlyItems and the related items that actions name.
// It sends Namespace objects only if they are among those.
func (r *enginePass) collectOnlyItems(ctx context.Context) error {
	refs := make([]itemaction.RelatedItem, 0, len(r.req.OnlyItems))
	for _, ref := range r.req.OnlyItems {
		ref.IgnoreSelection = true
		if resource, served := r.plan.cluster.PreferredVersion(ref.Resource); served && !resource.Namespaced {
			ref.Namespace = "" // plugins tend to set that of another object
		}
		refs = append(refs, ref)
	}
	r.related.addRelatedRefs(neededByOperation, refs, false)
	return r.collectPendingRelated(ctx)
}
