// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package veleromigration converts objects of Velero to objects of Grapnel, and reports what became of each field.
//
// A field is kept, changed or lost; see [Outcome]. Nothing is dropped silently: a field that the package does not know
// is lost. The input is untrusted: its size is limited, and values of Secrets are in no error and no report.
//
// It is pure: the caller reads files or the cluster, and prints the result.
package veleromigration
