// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs has no code: its directory has the documents, and its tests check
// them as far as a program can. The Go code in them compiles, a real API server accepts the
// manifests, links work, and the make targets that they name exist.
package docs
