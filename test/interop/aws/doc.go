// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aws stores backups through Velero's published plugin for AWS:
// the object store of most Velero locations. Its release is that of
// test/interop/velero.
package aws
