// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prerestoreactionv1 is the service of actions that run before a restore. It is
// generated from the .proto file beside it; see package proto for the protocol.
package prerestoreactionv1
