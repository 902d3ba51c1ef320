// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ready tells when an operator can work: when its caches hold what there is.
//
// An operator that stands by fills its caches too, so that it works at once when it
// takes over.
package ready
