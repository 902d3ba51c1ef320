// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host changes the machine that a throw-away cluster runs on, and reverts the
// changes: [Settings] of the kernel, a bridge and routes, tables of nftables, mounts and
// directories.
//
// The previous state is read first and kept by the caller. Removing what does not exist
// is not an error, so that a teardown can be repeated from any point.
//
// It is for Linux, needs root and the programs ip and nft, and is not for production
// code.
package host
