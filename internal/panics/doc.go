// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package panics turns a panic into an error of the object that caused it: one bad object must
// not end the operator. Every goroutine that works on untrusted objects, answers or
// files recovers per object:
//
//	func (e *engine) backUpItem(ctx context.Context, item Item) (err error) {
//		defer panics.Recover(&err)
//		...
//	}
package panics
