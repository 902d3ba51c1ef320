// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The errors of WaitForLease and WaitUntilLost.
var (
	// ErrNotLeading means that the operator does not hold the lease: not yet, or because
	// it released the lease.
	ErrNotLeading = errors.New("this operator does not hold the leader lease")
	// ErrLost means that the operator held the lease and lost it.
	ErrLost = errors.New("this operator has lost the leader lease")
	// ErrStale means that the lease was not renewed in time, and may be lost.
	ErrStale = errors.New("the leader lease was not renewed in time")
)

// Fence delays actions that only a leader may perform. It is safe for concurrent use. A nil *Fence,
// for an operator without leader election, delays nothing.
type Fence struct {
	duration, renewDeadline time.Duration
	now                     func() instant

	mu      sync.Mutex
	holdErr error // nil while the lease is held, otherwise ErrNotLeading or an ErrLost
	renewed instant
	// changed is closed when something above changes.
	changed chan struct{}
}

// New returns a Fence for a lease that is valid for a duration after each renewal. Its holder may
// act for at most renewDeadline after a renewal, which is shorter.
func New(duration, renewDeadline time.Duration) *Fence {
	return &Fence{duration: duration, renewDeadline: renewDeadline, now: currentInstant, holdErr: ErrNotLeading, changed: make(chan struct{})}
}

// WaitForLease returns nil if the operator may act now. If the lease was not renewed in time, it
// waits until the lease is renewed or lost, or ctx is done.
func (f *Fence) WaitForLease(ctx context.Context) error {
	if f == nil {
		return nil
	}
	for {
		changed, err := f.checkRenewed()
		if !errors.Is(err, ErrStale) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// checkRenewed reports whether the operator may act, and when that may change.
func (f *Fence) checkRenewed() (changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holdErr != nil {
		return f.changed, f.holdErr
	}
	if age := f.now().longestElapsed(f.renewed); age >= f.renewDeadline {
		return f.changed, fmt.Errorf("%w: the last renewal was %s ago", ErrStale, age.Round(time.Millisecond))
	}
	return f.changed, nil
}

// WaitUntilLost returns an ErrLost as soon as the lease is lost: another operator holds it, or
// may hold it because it has expired. It returns nil when ctx is done.
func (f *Fence) WaitUntilLost(ctx context.Context) error {
	tick := time.NewTicker(min(time.Second, max(f.duration/10, time.Millisecond)))
	defer tick.Stop()
	for {
		changed, err := f.checkExpired()
		if errors.Is(err, ErrLost) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		}
	}
}

// checkExpired is checkRenewed, and records that the lease has expired. A clock that can be set
// does not count.
func (f *Fence) checkExpired() (changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holdErr == nil {
		if age := f.now().elapsedMonotonic(f.renewed); age >= f.duration {
			f.setHoldErrLocked(fmt.Errorf("%w: the last renewal was %s ago", ErrLost, age.Round(time.Millisecond)))
		}
	}
	return f.changed, f.holdErr
}

// recordRenewal records that the lease was renewed by a request that was sent at an instant. The
// lease may be valid from then on only.
func (f *Fence) recordRenewal(at instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(f.holdErr, ErrLost) {
		return // work that the process started as the previous leader may still run
	}
	f.renewed = at
	f.setHoldErrLocked(nil)
}

// recordRelease records that the lease is being released.
func (f *Fence) recordRelease() { f.endLeadership(ErrNotLeading) }

// recordLoss records that another operator holds the lease.
func (f *Fence) recordLoss(to string) { f.endLeadership(fmt.Errorf("%w: %s holds it", ErrLost, to)) }

// endLeadership records that the lease is no longer held.
func (f *Fence) endLeadership(phase error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holdErr == nil {
		f.setHoldErrLocked(phase)
	}
}

func (f *Fence) setHoldErrLocked(phase error) {
	f.holdErr = phase
	close(f.changed)
	f.changed = make(chan struct{})
}
