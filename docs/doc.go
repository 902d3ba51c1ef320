// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs holds no code: its directory has the documents, and its tests check
// that they are true where a program can tell. The Go code in them compiles, the
// manifests are accepted by a real API server, links lead somewhere, and the
// targets of make that they name exist.
package docs
