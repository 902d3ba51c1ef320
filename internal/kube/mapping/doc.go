// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mapping caches the RESTMappings of Grapnel's own kinds. The cache of
// controller-runtime requests one with each Get, and the default mapper needs
// more time for that than the cache for the object: it iterates over all groups and
// allocates new lists.
package mapping
