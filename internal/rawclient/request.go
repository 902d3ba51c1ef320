// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sendGetRequest sends a GET and returns the open body.
func (c *Lister) sendGetRequest(ctx context.Context, target *url.URL, resource schema.GroupResource) (io.ReadCloser, error) {
	return c.requests.Do(ctx, Request{Method: http.MethodGet, URL: target, Resource: resource})
}

// Get reads one object. The error is the API server's (for example apierrors.IsNotFound)
// or the transport's, after the same retries as in List.
func (c *Lister) Get(ctx context.Context, kind ResourceKind, namespace, name string) (Item, error) {
	target := c.requests.URL(kind.Resource, namespace, name)
	var item Item
	err := c.doWithRetry(ctx, func() error {
		leave, err := acquireSlot(ctx, c.slots.inFlight)
		if err != nil {
			return err
		}
		defer leave()
		body, err := c.sendGetRequest(ctx, target, kind.Resource.GroupResource())
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		item, err = c.readObject(body, kind)
		return err
	})
	if err != nil {
		return Item{}, fmt.Errorf("getting %s %q: %w", kind.Resource.GroupResource(), namespacedKey(namespace, name), err)
	}
	return item, nil
}

// readObject reads a body that consists of one object. The item has memory of its own.
func (c *Lister) readObject(body io.Reader, kind ResourceKind) (Item, error) {
	s := c.scanners.Get().(*scanner) //nolint:forcetypeassert // the pool contains nothing else
	defer c.scanners.Put(s)
	if err := s.prepareForKind(kind); err != nil {
		return Item{}, err
	}
	s.resetBody(body)
	batch := &Batch{}
	s.batch = batch
	defer func() { s.batch = nil }()
	if err := s.scanItem(); err != nil {
		return Item{}, err
	}
	batch.sealItems()
	return batch.Items[0], nil
}

// namespacedKey returns "namespace/name", or the name alone.
func namespacedKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
