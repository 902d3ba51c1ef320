// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storetest is the conformance suite for object stores, and a faulty store for the
// tests of their users.
//
// [RunConformance] checks the whole contract of objectstore.Store. Each implementation
// calls it from one test:
//
//	func TestConformance(t *testing.T) {
//		storetest.RunConformance(t, func() objectstore.Store { return memory.New() })
//	}
//
// [FaultyStore] wraps a store and fails, delays or truncates the calls that its faults
// select, or fails all calls from the k-th on, as a crash does.
//
// It is for tests only.
package storetest
