// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package request sends raw requests to an API server: bodies are passed through as
// they are on the wire, and only errors are decoded.
//
// Client.Do sends one request and returns the open body of a success, or the
// API server's own error (apierrors). RetryDelay decides whether a request may succeed
// later: one that the server deferred (429, with its Retry-After), one that it
// could not serve (5xx), one whose connection broke. Only the caller knows whether
// repeating a request is safe.
//
// Packages list and write build on it.
package request
