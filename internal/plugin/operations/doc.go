// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operations calls actions of plugins for the operations that they started: for the
// progress of an operation, and to cancel it.
//
// A call that does not succeed returns a Failure instead of an error. It reports whether the
// plugin responded and whether it knows the operation. Package internal/operation decides
// what happens to the operation. The returned texts contain no secrets.
package operations
