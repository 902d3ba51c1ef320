// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deleteactionv1 is the service of actions that run when a backup is deleted. It is
// generated from the .proto file beside it; see package proto for the protocol.
package deleteactionv1
