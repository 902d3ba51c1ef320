// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restoreaction defines how single objects are processed between the archive and
// the cluster, apart from creating them. The restore engine calls actions, which may change
// an object, skip it, or name others that must exist first.
//
// Before the first action, package clean removes what is meaningful only in the old
// cluster. The actions of Grapnel are below builtin/, each in a small package named after
// its kind. Restore item actions of plugins are adapted to the same interface.
//
// Actions work on unstructured objects of an archive that anyone may have written. They
// treat a field of a wrong type as missing (package field), and let the API server reject
// it.
package restoreaction
