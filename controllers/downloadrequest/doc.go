// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package downloadrequest lets people read the files of Backups and Restores without credentials for
// the location, and without an address that is reachable from outside the cluster.
//
// A client generates a random token and creates a DownloadRequest with its hash. An admission policy
// (config/policy/downloadrequests.yaml) checks at that moment whether its user may get what is
// requested. The Reconciler makes the request Ready, and deletes it after ten minutes. Until then,
// the Server sends the file to whoever has the token, through the Service grapnel-downloads and the API
// server's proxy for Services. The API server removes the Authorization header there, so the operator
// cannot know the user; the token takes its place.
package downloadrequest
