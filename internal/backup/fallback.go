// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"sync"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/kube/list"
)

// fallbackAttempts is how often the page of one namespace is asked for that fails because
// of its objects: the LIST of all namespaces was repeated as often as it may help.
const fallbackAttempts = 2

// fallBackToNamespaces lists each namespace by itself after a LIST of all of them failed because of an
// object, so that a tenant costs only itself the backup. If no namespace can be listed, the
// kind as a whole is what fails.
func (c *collection) fallBackToNamespaces(ctx context.Context, wideErr error) {
	logr.FromContextOrDiscard(ctx).Info("Listing each namespace separately, because the list of all namespaces failed",
		"resource", c.resource.GVR.String(), "namespaces", len(c.plan.includedNamespaces), "reason", wideErr.Error())
	var mu sync.Mutex
	failed := map[string]error{}
	c.listEachNamespace(ctx, fallbackAttempts, func(namespace string, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed[namespace] = err
	})
	if len(failed) == len(c.plan.includedNamespaces) {
		c.recordListError(ctx, "", wideErr)
		return
	}
	for namespace, err := range failed {
		c.recordListError(ctx, namespace, err)
	}
}

// canFallBackToNamespaces reports whether listing each namespace by itself may bring more than a LIST
// of all of them that failed.
func (c *collection) canFallBackToNamespaces(err error) bool {
	return c.resource.Namespaced && len(c.plan.includedNamespaces) > 1 && list.IsObjectFailure(err)
}
