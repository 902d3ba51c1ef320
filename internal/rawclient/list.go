// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// DefaultPageSize is more than the 500 that Kubernetes clients commonly use.
// The pages of a kind are read in sequence, and the largest kinds determine how long a
// backup takes: with 500 it was 2.3 times the limit of `make bench`, with this value 1.8
// times. The scanner streams, and never holds a whole page.
const DefaultPageSize = 2500

// ListOptions are the options of a Lister. A zero field means its default.
type ListOptions struct {
	// PageSize is the limit of a LIST.
	PageSize int
	// Compress requests compressed bodies from the API server. That saves network
	// and costs the API server more time than a LAN needs to transfer the bytes.
	Compress bool
	// Sleep waits for d, or until ctx is done, and then returns the error of ctx.
	// Tests replace it.
	Sleep func(ctx context.Context, d time.Duration) error
}

func (o ListOptions) withDefaults() ListOptions {
	if o.PageSize <= 0 {
		o.PageSize = DefaultPageSize
	}
	if o.Sleep == nil {
		o.Sleep = Sleep
	}
	return o
}

// Lister reads objects from one API server. It is safe for concurrent use.
type Lister struct {
	requests *Client
	opts     ListOptions

	// slots are used by requests without Slots of their own.
	slots    *Slots
	scanners *sync.Pool
	batches  *sync.Pool
}

// NewLister returns a Lister for the API server of cfg, with its credentials and a
// connection of its own; see New.
func NewLister(cfg *rest.Config, opts ListOptions) (*Lister, error) {
	opts = opts.withDefaults()
	requests, err := New(cfg, opts.Compress)
	if err != nil {
		return nil, err
	}
	return &Lister{
		requests: requests,
		opts:     opts,
		slots:    NewSlots(0, 0),
		scanners: &sync.Pool{New: func() any { return newScanner() }},
		batches:  &sync.Pool{},
	}, nil
}
