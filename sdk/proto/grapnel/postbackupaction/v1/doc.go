// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package postbackupactionv1 is the service of actions that run after a backup. It is
// generated from the .proto file beside it; see package proto for the protocol.
package postbackupactionv1
