// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory is an object store that lives in the memory of the process,
// for tests: fast, without files or servers, and with the same semantics as
// the real ones (it passes the same conformance suite).
//
// It is not for production: nothing survives the process.
package memory
