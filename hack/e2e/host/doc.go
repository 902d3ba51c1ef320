// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host changes the machine that a throw-away cluster runs on, and changes it
// back: [Settings] of the kernel, a bridge and routes, tables of nftables, mounts and
// directories.
//
// What was there before is read first and kept by the caller; taking away what is not
// there is no error, so that a teardown can be repeated from any point.
//
// It is for Linux, needs root and the programs ip and nft, and is not for production
// code.
package host
