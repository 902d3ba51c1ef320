// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of Grapnel, kubectl grapnel. Its verbs and flags are those of Velero where
// the meaning is the same.
//
// It works with the rights of its user only: it reads and writes Grapnel's objects, and gets files by means
// of DownloadRequests (internal/download). Everything that comes from a cluster or a store is stripped of control
// characters before it is printed.
//
// The exit code is 0 if the command succeeded, or the run that it waited for is Completed; 2 if that
// run is PartiallyFailed, or doctor has warnings; and 1 otherwise.
package cli
