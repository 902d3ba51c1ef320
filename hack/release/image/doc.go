// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image packs container images without a container engine or a registry, as OCI
// layouts and as archives of them, which `kind load image-archive`, `ctr images import` and
// `skopeo copy oci-archive:` read.
//
//	err := image.Image{
//		Name:       "docker.io/local/hello:1",
//		Entrypoint: []string{"/hello"},
//		User:       image.NonRoot,
//		Content:    []image.Item{image.File{Path: "/hello", Source: "bin/hello", Mode: 0o755}},
//	}.Save("hello.tar")
//
// The content is a list of [File], [Data], [Link], [Directory] and [Tree], packed in its
// order into one layer; a later item replaces an earlier one with the same path. Every
// image has a world-writable /tmp and an /etc/passwd with root and
// the user of [NonRoot]. The same content gives the same bytes, and so the same digest.
//
// [Grapnel] is the image of the operator: that of a release, and that of the tests.
package image
