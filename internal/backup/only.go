// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// neededByOperation is what wants the objects of Request.Only.
const neededByOperation = "an operation that has ended"

// only reports whether nothing but Request.Only is archived.
func (r *Request) only() bool { return len(r.Only) > 0 }

// collectOnly sends the objects of Request.Only and what actions name beside them.
// Namespace objects come only if they are among those.
func (r *run) collectOnly(ctx context.Context) error {
	refs := make([]itemaction.Ref, 0, len(r.req.Only))
	for _, ref := range r.req.Only {
		ref.Always = true
		if resource, served := r.plan.cluster.For(ref.Resource); served && !resource.Namespaced {
			ref.Namespace = "" // plugins tend to add that of another object
		}
		refs = append(refs, ref)
	}
	r.related.add(neededByOperation, refs, false)
	return r.addPending(ctx)
}
