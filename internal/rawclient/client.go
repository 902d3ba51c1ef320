// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const (
	dialTimeout = 30 * time.Second
	// maxErrorBytes is how much of an error's body is read.
	maxErrorBytes = 64 << 10
)

// Client sends requests to one API server. It is safe for concurrent use.
type Client struct {
	http *http.Client
	base *url.URL
}

// New returns a Client for the API server of cfg, with its credentials. It has a connection of its
// own, because a run must not delay the watches of other clients. It has no client-side rate limit
// and relies on the API server's priority and fairness instead (429 with Retry-After). With
// compress, it requests compressed bodies. That saves network and costs the API server more time
// than a LAN needs to transfer the bytes.
func New(cfg *rest.Config, compress bool) (*Client, error) {
	own := rest.CopyConfig(cfg)
	own.DisableCompression = !compress
	if own.Dial == nil {
		// A separate dialer results in a separate transport.
		own.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	httpClient, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("creating a client for raw requests: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return nil, fmt.Errorf("determining the URL of the API server: %w", err)
	}
	httpClient.Timeout = 0 // bodies are read at the speed of the caller
	return &Client{http: httpClient, base: base}, nil
}

// URL returns the URL of a collection, or of an object in it if name is not
// empty. Without a namespace, it is the URL for all namespaces or of a
// cluster-scoped resource.
func (c *Client) URL(gvr schema.GroupVersionResource, namespace, name string) *url.URL {
	var parts []string
	if gvr.Group == "" {
		parts = append(parts, "api", gvr.Version)
	} else {
		parts = append(parts, "apis", gvr.Group, gvr.Version)
	}
	if namespace != "" {
		parts = append(parts, "namespaces", url.PathEscape(namespace))
	}
	parts = append(parts, gvr.Resource)
	if name != "" {
		parts = append(parts, url.PathEscape(name))
	}
	return c.base.JoinPath(parts...)
}

// Request is one request.
type Request struct {
	// Method of HTTP.
	Method string
	// URL from Client.URL, optionally with a query.
	URL *url.URL
	// Resource of the request, for errors.
	Resource schema.GroupResource
	// Accept is the media type of the response, JSON if empty.
	Accept string
	// ContentType of Body, JSON if empty.
	ContentType string
	// Body to send, nil for none. It must not change until Do returns.
	Body []byte
}

const jsonType = "application/json"

// Do sends a request and returns the open body, or the API server's error as an
// *apierrors.StatusError.
func (c *Client) Do(ctx context.Context, r Request) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("creating a request: %w", err)
	}
	req.Header.Set("Accept", valueOrDefault(r.Accept, jsonType))
	if len(r.Body) > 0 {
		req.Header.Set("Content-Type", valueOrDefault(r.ContentType, jsonType))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("requesting %s: %w", r.Resource, err)
	}
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, errorFromResponse(resp, r)
}

func valueOrDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// errorFromResponse turns an error response into an error.
func errorFromResponse(resp *http.Response, r Request) error {
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
	return apierrors.NewGenericServerResponse(resp.StatusCode, strings.ToLower(r.Method), r.Resource, "",
		string(bytes.TrimSpace(body)), retryAfter, true)
}
