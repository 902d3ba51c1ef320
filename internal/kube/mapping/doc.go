// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mapping remembers which resources Grapnel's own kinds are. The cache of
// controller-runtime asks for that with each Get, and the mapper of the API server's kinds
// takes longer for the answer than the cache for the object: it looks through all groups and
// makes new lists.
package mapping
