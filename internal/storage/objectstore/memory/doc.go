// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory is an object store in the memory of the process, for tests. It is fast,
// needs neither files nor servers, and has the same semantics as the other stores (it
// passes the same conformance suite).
//
// It is not for production: its objects are lost when the process ends.
package memory
