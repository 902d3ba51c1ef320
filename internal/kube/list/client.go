// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/grapnel-dev/grapnel/internal/kube/request"
)

// DefaultPageSize is what clients of Kubernetes commonly ask for. Larger
// pages are not faster and cost more of the API server's memory.
const DefaultPageSize = 500

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
		o.Sleep = request.Sleep
	}
	return o
}

// Client reads objects from one API server. It is safe for concurrent use.
type Client struct {
	requests *request.Client
	opts     Options

	// places are those of requests that bring none.
	places   *Places
	scanners *sync.Pool
	batches  *sync.Pool
}

// New returns a Client for the API server of cfg, with its credentials and a
// connection of its own; see request.New.
func New(cfg *rest.Config, opts Options) (*Client, error) {
	opts = opts.withDefaults()
	requests, err := request.New(cfg, opts.Compress)
	if err != nil {
		return nil, err
	}
	return &Client{
		requests: requests,
		opts:     opts,
		places:   NewPlaces(0, 0),
		scanners: &sync.Pool{New: func() any { return newScanner() }},
		batches:  &sync.Pool{},
	}, nil
}
