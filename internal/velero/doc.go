// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package velero encodes Backups and Restores of Grapnel as velero.io/v1, for the manifest
// of a backup and for plugins. It also encodes the files with the outcomes of the
// operations of item actions (operations.go).
//
// The callers fill in the specs and statuses. The package is not for the wire protocol of
// plugins; see sdk/proto.
package velero
