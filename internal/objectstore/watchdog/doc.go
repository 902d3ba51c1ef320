// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watchdog is an object store whose calls end, whatever the store behind it
// does: it wraps a store that may hang in a system call, and gives up a call when its
// ctx ends or when the store makes no progress for too long.
//
// Each call runs in a goroutine of its own. A call that is given up has its ctx
// canceled. If it does not return then, its goroutine is left behind, and the caller
// gets an error that names the store. A Get that is given up is closed when it returns;
// a Put that is given up reads no further byte, so it stores nothing unless its last
// system call was already under way. [Stuck] counts what was left behind: a store with
// too many such calls gets no new ones, because a thread in an uninterruptible system
// call can be ended by nothing.
//
// The time that a caller takes between two reads, or the reader handed to Put takes to
// yield bytes, does not count: only the store's own turns are measured.
package watchdog
