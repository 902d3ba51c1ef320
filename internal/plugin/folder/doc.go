// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package folder watches the folder that plugin binaries lie in, with all folders
// below it, and tells which paths changed.
//
// A [Watch] waits until a change has settled, because a copy is written piece by piece
// and a package manager touches many files. It tells of paths and looks into none of
// them: whether a changed file concerns anybody, and whether it is a plugin at all, is
// decided elsewhere. Nothing that lies in the folder is ever executed for lying there.
//
// It needs a file system that tells of changes; some that are mounted over a network do
// not tell of those made on another machine.
package folder
