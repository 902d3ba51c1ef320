// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore has a real Velero server restore a backup of Grapnel, and Grapnel
// one of Velero, and compares every object with what it was.
//
// Both run as processes against one API server and one bucket, each with a location
// of its own for it. Velero and its plugin for S3 are built from their published
// modules, which ../velero pins, into bin/test/velero.
//
// Where a restored object may differ from what it was, a variable or function whose
// name starts with "allowed" says so, with the reason beside it.
package restore
