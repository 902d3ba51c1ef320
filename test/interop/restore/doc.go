// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore lets a real Velero server restore a backup of Grapnel, and Grapnel
// one of Velero, and compares every object with its original.
//
// Both run as processes against one API server and one bucket, each with its own
// location for the bucket. Velero and its plugin for S3 are built from their published
// modules, which ../velero pins, into bin/test/velero.
//
// If a restored object may differ from its original, a variable or function whose
// name starts with "allowed" lists the difference, with the reason next to it.
package restore
