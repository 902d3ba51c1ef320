// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/kube/request"
)

// do sends a GET and returns the open body.
func (c *Client) do(ctx context.Context, target *url.URL, resource schema.GroupResource) (io.ReadCloser, error) {
	return c.requests.Do(ctx, request.Request{Method: http.MethodGet, URL: target, Resource: resource})
}

// Get reads one object. The error is the API server's (apierrors.IsNotFound
// and so on) or the transport's, after the same retries as those of List.
func (c *Client) Get(ctx context.Context, kind Kind, namespace, name string) (Item, error) {
	target := c.requests.URL(kind.Resource, namespace, name)
	var item Item
	err := c.retry(ctx, func() error {
		leave, err := enter(ctx, c.places.inFlight)
		if err != nil {
			return err
		}
		defer leave()
		body, err := c.do(ctx, target, kind.Resource.GroupResource())
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		item, err = c.single(body, kind)
		return err
	})
	if err != nil {
		return Item{}, fmt.Errorf("getting %s %q: %w", kind.Resource.GroupResource(), join(namespace, name), err)
	}
	return item, nil
}

// single reads a body that is one object. The item has memory of its own.
func (c *Client) single(body io.Reader, kind Kind) (Item, error) {
	s := c.scanners.Get().(*scanner) //nolint:forcetypeassert // the pool makes nothing else
	defer c.scanners.Put(s)
	if err := s.start(kind); err != nil {
		return Item{}, err
	}
	s.reset(body)
	batch := &Batch{}
	s.batch = batch
	defer func() { s.batch = nil }()
	ok, err := s.item()
	if err != nil {
		return Item{}, err
	}
	if !ok {
		return Item{}, errNameless
	}
	batch.seal()
	return batch.Items[0], nil
}

// join returns "namespace/name", or the name alone.
func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
