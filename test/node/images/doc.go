// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images makes the images that tests need: [Busybox], [Endpoints], [Pause], [SaveGrapnel]
// and [SavePostgres]. They are built from this repository and from packages of the distribution, and
// packed by package image of hack/release.
//
// It is not for production code.
package images
