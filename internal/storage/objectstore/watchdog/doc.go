// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watchdog is an object store whose calls always return. It wraps a store that may
// hang in a system call, and abandons a call when its ctx ends or when the store makes no
// progress for too long.
//
// Each call runs in its own goroutine. The watchdog cancels the ctx of a call that it gives
// up. If the call still does not return, its goroutine is abandoned, and the caller gets an
// error that names the store. The stream of an abandoned Get is closed when the Get
// returns. An abandoned Put reads no further byte, so it stores nothing unless its last
// system call was already in progress. [StuckCalls] counts the abandoned calls. A store
// with too many of them gets no new calls, because a thread in an uninterruptible system
// call cannot be killed.
//
// The time of the caller between two reads does not count, and neither does the time that
// the reader passed to Put takes to yield bytes.
package watchdog
