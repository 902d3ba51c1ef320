// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxErrorBytes is how much of an error's body is read.
const maxErrorBytes = 64 << 10

// do sends a GET and returns the open body, or the API server's error as an
// *apierrors.StatusError.
func (c *Client) do(ctx context.Context, target *url.URL, resource schema.GroupResource) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", resource, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, statusError(resp, resource)
}

// statusError turns an error response into an error.
func statusError(resp *http.Response, resource schema.GroupResource) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	retryAfter, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err == nil && status.Kind == "Status" {
		status.Code = int32(resp.StatusCode) //nolint:gosec // three digits
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		if retryAfter > 0 {
			status.Details.RetryAfterSeconds = int32(min(retryAfter, int(maxRetryAfter/time.Second)))
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, "list", resource, "",
		string(bytes.TrimSpace(body)), retryAfter, true)
}

// Get reads one object. The error is the API server's (apierrors.IsNotFound
// and so on) or the transport's, after the same retries as those of List.
func (c *Client) Get(ctx context.Context, kind Kind, namespace, name string) (Item, error) {
	target := c.resourceURL(kind.Resource, namespace).JoinPath(url.PathEscape(name))
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
