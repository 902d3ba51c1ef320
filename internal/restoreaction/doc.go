// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restoreaction defines what happens to single objects between the
// archive and the cluster besides creating them: the restore engine asks
// actions, which may change an object, keep it out, or name others that have
// to be there first.
//
// Before the first action, package clean takes from an object what only its
// old cluster could know. The actions that are part of Grapnel live below
// builtin/, one small package each, found by the kind they are about. Restore
// item actions of plugins are adapted to the same interface.
//
// Actions work on unstructured objects of an archive that anybody may have
// written: a field of a wrong type is as good as missing to them (package
// field), and is left for the API server to reject.
package restoreaction
