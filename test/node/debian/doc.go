// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package debian unpacks packages of Debian, or of a derivative, with everything
// they depend on, into a directory that becomes a container's root. Nothing is installed on
// this machine.
//
//	err := debian.Unpack(ctx, debian.Request{Packages: []string{"postgresql"}, Cache: cache, Dir: dir})
//
// apt resolves, downloads and verifies them. Scripts of the packages are not run: callers
// that need a user or a configured service must create it. What is essential on every Debian,
// and is therefore no dependency of any package, such as a shell, is missing.
//
// It needs apt-get with current lists (apt-get update), dpkg-deb and tar, and is not for
// production code.
package debian
