// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operation knows what becomes of asynchronous operations that actions of
// plugins start on objects. It is pure: it calls nothing, and is told what time it is.
//
//	sum.go  what a Backup or Restore says of all of its operations
package operation
