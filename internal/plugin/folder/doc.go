// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package folder watches the directory of plugin binaries, with all its subdirectories, and
// reports which paths changed.
//
// A [Watcher] waits until a change has settled, because a copy is written piece by piece
// and a package manager changes many files. It reports paths and reads none of the files:
// other packages decide whether a changed file is in use, and whether it is a plugin at
// all. No file is ever executed just because it is in the directory.
//
// It needs a file system that reports changes; some network file systems do not report
// changes made on another machine.
package folder
