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

// The errors of Wait and Watch.
var (
	// ErrNotLeading means that the operator does not hold the lease: not yet, or because
	// it gave it back.
	ErrNotLeading = errors.New("this operator does not hold the lease of the leader")
	// ErrLost means that it held the lease, and does not any more.
	ErrLost = errors.New("this operator has lost the lease of the leader")
	// ErrStale means that the lease was not renewed in time, and may be lost.
	ErrStale = errors.New("the lease of the leader was not renewed in time")
)

// Fence holds back what only a leader may do. It is safe for concurrent use. A nil *Fence
// lets everything pass: that of an operator without leader election.
type Fence struct {
	duration, renewDeadline time.Duration
	now                     func() instant

	mu      sync.Mutex
	holdErr error // nil while the lease is held, else ErrNotLeading or an ErrLost
	renewed instant
	// changed is closed when something above changes.
	changed chan struct{}
}

// New returns a Fence for a lease that is valid for a duration after each renewal, and on
// which its holder acts for at most renewDeadline, which is shorter.
func New(duration, renewDeadline time.Duration) *Fence {
	return &Fence{duration: duration, renewDeadline: renewDeadline, now: currentInstant, holdErr: ErrNotLeading, changed: make(chan struct{})}
}

// WaitForLease returns nil if the operator may act now. If the lease was not renewed in time, Wait
// waits until it is, or is lost, or ctx ends.
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
// may do so because it has run out. It returns nil when ctx ends.
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

// checkExpired is check, and notes that the lease has run out. A clock that is set says nothing
// about that.
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

// recordRenewal notes that the lease was renewed by a request that was made at an instant: the API
// server may have counted from then on.
func (f *Fence) recordRenewal(at instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(f.holdErr, ErrLost) {
		return // what the process began as the leader before may go on in it
	}
	f.renewed = at
	f.setHoldErrLocked(nil)
}

// recordRelease notes that the lease is being given back.
func (f *Fence) recordRelease() { f.endLeadership(ErrNotLeading) }

// recordLoss notes that another operator has the lease.
func (f *Fence) recordLoss(to string) { f.endLeadership(fmt.Errorf("%w: %s holds it", ErrLost, to)) }

// endLeadership ends the time in which the lease is held.
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
