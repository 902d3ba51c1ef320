// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"sync"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// fallbackAttempts is how often a page of one namespace is requested if it fails because of
// its objects: the LIST of all namespaces has already been retried.
const fallbackAttempts = 2

// fallBackToNamespaces lists each namespace separately after a LIST of all of them failed
// because of an object, so that a tenant fails only its own backup. If no namespace can be
// listed, the whole kind fails.
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

// canFallBackToNamespaces reports whether listing each namespace separately may return more
// than the failed LIST of all of them.
func (c *collection) canFallBackToNamespaces(err error) bool {
	return c.resource.Namespaced && len(c.plan.includedNamespaces) > 1 && rawclient.IsObjectFailure(err)
}
