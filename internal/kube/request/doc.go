// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package request sends raw requests to an API server: bodies go in and out as
// they are on the wire, nothing is decoded but errors.
//
// Client.Do sends one request and returns the open body of a success, or the
// API server's own error (apierrors). Retry repeats a request that may succeed
// later: one that the server put off (429, with its Retry-After), one that it
// could not serve (5xx), one whose connection broke. Whether repeating does any
// harm, only the caller knows.
//
// Packages list and write build on it.
package request
