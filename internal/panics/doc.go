// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package panics turns a panic into an error of the object that caused it, so that one
// bad object cannot end the operator. Every goroutine that works on objects, answers or
// files of others recovers per object:
//
//	func (e *engine) backUpItem(ctx context.Context, item Item) (err error) {
//		defer panics.Recover(&err)
//		...
//	}
package panics
