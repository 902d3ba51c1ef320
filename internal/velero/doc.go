// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package velero has what the Backups and Restores that Grapnel describes in the form of
// velero.io/v1 have in common: for the manifest of a backup, and for plugins. It also has
// the files that tell how the operations of item actions ended (operations.go).
//
// What is filled into their specs and statuses is the business of those who make them. It is not for
// the wire protocol of plugins; see sdk/proto.
package velero
