// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease keeps an operator that no longer leads from acting.
//
// Leader election alone does not: an operator whose process or machine was paused wakes up
// in the middle of whatever it did, and believes to lead until it has asked for its lease
// again. Another one leads by then.
//
// A [Fence] knows when the lease was renewed last, because it wraps the lock of the
// election (Lock). Whoever is about to change something outside of the process calls Wait,
// which returns at once while the last renewal is younger than the renew deadline, and else
// waits for the next one. The clients of the API server (Transport), the stores of backups
// (Store) and the calls of plugins do that. Watch returns as soon as the lease is lost, so
// that the process can end.
//
// What this cannot see: a virtual machine that was paused knows nothing of it until its
// clock is set, and a request that was on its way is not called back. The versions in
// requests, the claims in stores and controllers/quiesce are for those.
//
//	fence.go       the Fence
//	clock.go       how much time has passed, by every clock there is
//	lock.go        what notes the renewals
//	transport.go   requests to the API server
//	store.go       writes to an object store
package lease
