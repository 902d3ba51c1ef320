// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectstore is the contract between Grapnel and the stores that hold backups. A
// store is a flat set of named byte sequences, which are written as a whole, read as
// streams and listed in order.
//
// The interface [Store] is the whole contract. Its implementations live in the packages
// below this one (filesystem, s3, memory) and in internal/plugin/client. Each of them must
// pass the conformance suite in storetest, so code above can rely on the contract for every store.
//
// Keys are slash-separated paths without a leading slash; see [ValidateKey]. A store does
// not interpret keys. Only package storage builds keys and knows the prefixes, the
// names of backups and the files.
//
// Errors of all stores can be classified with errors.Is and the sentinels of this package.
// They name the key and the attempted operation, and never contain a credential or a signed
// URL.
//
// This package is not for local scratch files, and not for objects that change in place:
// there is no append, no rename and no partial write.
package objectstore
