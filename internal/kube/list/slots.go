// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import "context"

const (
	// DefaultInFlight is how many requests may be open. A LIST without a limit
	// of a kind that nobody changes is answered only when the API server's
	// cache has heard of etcd's progress, up to 100 ms later; so open requests
	// may merely wait, and asking for all kinds at once costs one wait instead
	// of many.
	DefaultInFlight = 64
	// DefaultReaders is how many bodies are read at a time.
	DefaultReaders = 8
)

// Slots bound how many requests are open and how many bodies are read at a
// time by those who share them, and with that their memory: about 1 MiB, or a
// few times the largest object, for each reader. A handler that blocks keeps
// the places of its LIST. So whoever must not wait for another's handlers needs
// Places of its own.
type Slots struct {
	inFlight chan struct{}
	readers  chan struct{}
}

// NewSlots returns free Places; 0 means the default.
func NewSlots(inFlight, readers int) *Slots {
	if inFlight <= 0 {
		inFlight = DefaultInFlight
	}
	if readers <= 0 {
		readers = DefaultReaders
	}
	return &Slots{inFlight: make(chan struct{}, inFlight), readers: make(chan struct{}, readers)}
}

// acquireSlot takes a place, unless ctx ends first, and returns how to leave it.
func acquireSlot(ctx context.Context, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
