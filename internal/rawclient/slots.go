// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import "context"

const (
	// DefaultInFlight is how many requests may be open. For a kind without changes, the API server
	// answers a LIST without a limit only when its cache has received a progress notification of
	// etcd, up to 100 ms later. Open requests may therefore merely wait, and requesting all kinds
	// at once costs one wait instead of many.
	DefaultInFlight = 64
	// DefaultReaders is how many bodies are read concurrently.
	DefaultReaders = 8
)

// Slots limit the open requests and the concurrently read bodies of all users of the Slots, and
// thereby their memory: about 1 MiB, or a few times the largest object, per reader. A handler that
// blocks keeps the slots of its LIST. A caller that must not wait for the handlers of others needs
// Slots of its own.
type Slots struct {
	inFlight chan struct{}
	readers  chan struct{}
}

// NewSlots returns free Slots; 0 means the default.
func NewSlots(inFlight, readers int) *Slots {
	if inFlight <= 0 {
		inFlight = DefaultInFlight
	}
	if readers <= 0 {
		readers = DefaultReaders
	}
	return &Slots{inFlight: make(chan struct{}, inFlight), readers: make(chan struct{}, readers)}
}

// acquireSlot acquires a slot, unless ctx is done first, and returns the function that releases it.
func acquireSlot(ctx context.Context, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
