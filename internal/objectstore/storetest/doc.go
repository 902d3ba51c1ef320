// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storetest is the conformance suite for object stores, and a faulty
// store for the tests of those who use them.
//
// [Run] checks the whole contract of objectstore.Store; each implementation
// calls it from one test:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func() objectstore.Store { return memory.New() })
//	}
//
// [Faulty] wraps a store and fails, delays or cuts short the calls that its
// faults select, or all of them from the k-th on, as a crash does.
//
// It is for tests only.
package storetest
