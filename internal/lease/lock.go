// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Name is the name of the lease that only the active operator holds.
const Name = "operator.grapnel.dev"

// WrapElectionLock returns the lock of a leader election that informs the Fence about the
// lease. The client of the lock must not wait for the Fence.
func (f *Fence) WrapElectionLock(of resourcelock.Interface) resourcelock.Interface {
	return &fencedLock{Interface: of, fence: f}
}

type fencedLock struct {
	resourcelock.Interface
	fence *Fence
}

// Get reads the lease, and records if another operator holds it.
func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.fence.recordLoss(record.HolderIdentity)
	}
	return record, raw, err
}

// Create acquires a lease that had no holder.
func (l *fencedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := l.fence.now()
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.fence.recordRenewal(began)
	}
	return err
}

// Update acquires, renews or releases the lease.
func (l *fencedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.Identity() {
		l.fence.recordRelease()
		return l.Interface.Update(ctx, record)
	}
	began := l.fence.now()
	err := l.Interface.Update(ctx, record)
	if err == nil {
		l.fence.recordRenewal(began)
	}
	return err
}
