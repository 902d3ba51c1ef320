// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectstore is the contract between Grapnel and the places where
// backups are kept: a flat set of named byte sequences that are written whole,
// read as streams and listed in order.
//
// The interface [Store] carries the whole contract. Its implementations live
// in the packages below this one (filesystem, s3, memory, plugin), and every
// one of them has to pass the conformance suite in storetest, so that code
// above can rely on the contract without knowing which store it talks to.
//
// Keys are slash separated paths without a leading slash; see [ValidateKey].
// A store knows nothing of what the keys mean: prefixes, names of backups and
// files are the business of package backupstore, the only caller that builds
// keys.
//
// Errors can be told apart with errors.Is and the sentinels of this package,
// whichever store they come from; they name the key and what was attempted,
// and never contain a credential or a signed URL.
//
// This package is not for local scratch files, and not for objects that
// change in place: there is no append, no rename and no partial write.
package objectstore
