// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package postrestoreactionv1 is the service of actions that run after a restore. It is
// generated from the .proto file beside it; see package proto for the protocol.
package postrestoreactionv1
