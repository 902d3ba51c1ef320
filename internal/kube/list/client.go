// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const (
	// DefaultPageSize is what clients of Kubernetes commonly ask for. Larger
	// pages are not faster and cost more of the API server's memory.
	DefaultPageSize = 500
	dialTimeout     = 30 * time.Second
)

// Options of a Client. A zero field means its default.
type Options struct {
	// PageSize is the limit of a LIST.
	PageSize int
	// Compress asks the API server for compressed bodies. That saves network
	// and costs the API server more time than a LAN needs to carry the bytes.
	Compress bool
	// Sleep waits for d or until ctx is done, whose error it returns then. It
	// is replaced in tests.
	Sleep func(ctx context.Context, d time.Duration) error
}

func (o Options) withDefaults() Options {
	if o.PageSize <= 0 {
		o.PageSize = DefaultPageSize
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	return o
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Client reads objects from one API server. It is safe for concurrent use.
type Client struct {
	http *http.Client
	base *url.URL
	opts Options

	// places are those of requests that bring none.
	places   *Places
	scanners *sync.Pool
	batches  *sync.Pool
}

// New returns a Client for the API server of cfg, with its credentials. It has
// a connection of its own, so that a backup does not delay the watches of
// others, and no client-side rate limit: the API server's own priority and
// fairness is honoured instead (429 with Retry-After).
func New(cfg *rest.Config, opts Options) (*Client, error) {
	opts = opts.withDefaults()
	own := rest.CopyConfig(cfg)
	own.DisableCompression = !opts.Compress
	if own.Dial == nil {
		// A dialer of its own gives it a transport of its own.
		own.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	httpClient, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("making a client for LISTs: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	httpClient.Timeout = 0 // bodies are read at the speed of the store
	return &Client{
		http:     httpClient,
		base:     base,
		opts:     opts,
		places:   NewPlaces(0, 0),
		scanners: &sync.Pool{New: func() any { return newScanner() }},
		batches:  &sync.Pool{},
	}, nil
}

// resourceURL returns the URL of a collection.
func (c *Client) resourceURL(gvr schema.GroupVersionResource, namespace string) *url.URL {
	var parts []string
	if gvr.Group == "" {
		parts = append(parts, "api", gvr.Version)
	} else {
		parts = append(parts, "apis", gvr.Group, gvr.Version)
	}
	if namespace != "" {
		parts = append(parts, "namespaces", url.PathEscape(namespace))
	}
	return c.base.JoinPath(append(parts, gvr.Resource)...)
}
