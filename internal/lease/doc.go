// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease keeps an operator that no longer leads from acting.
//
// Leader election alone does not do that: an operator whose process or machine was paused resumes
// in the middle of its work, and believes that it is the leader until it tries to renew its
// lease. By then another operator may be the leader.
//
// A [Fence] knows when the lease was renewed last, because it wraps the lock of the
// election (WrapElectionLock). Code that is about to change something outside of the process calls
// WaitForLease, which returns at once while the last renewal is younger than the renew deadline,
// and otherwise waits for the next renewal. The clients of the API server (WrapTransport), the
// object stores (WrapObjectStore) and the calls of plugins do that. WaitUntilLost returns as soon
// as the lease is lost, and the process can then exit.
//
// The Fence has two limits: a paused virtual machine does not notice the pause until its
// clock is set, and a request in flight cannot be recalled. The resource versions in
// requests, the claims in stores and controllers/quiesce cover these cases.
//
//	fence.go       the Fence
//	clock.go       the elapsed time, by every available clock
//	lock.go        records the renewals
//	transport.go   requests to the API server
//	store.go       writes to an object store
package lease
