// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diagnosis finds what is wrong with an installation of Grapnel, and what to do about it. It decides from a
// Snapshot that its caller read, with the rights of a user; what the user may not read is not checked.
//
//	snapshot.go      what was read
//	finding.go       what was found
//	installation.go  the checks of the operator and of what surrounds it
//	objects.go       the checks of locations, Plugins and Schedules
//	runs.go          the checks of runs, their hooks and of finalizers
package diagnosis
