// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prebackupactionv1 is the service of actions that run before a backup. It is
// generated from the .proto file beside it; see package proto for the protocol.
package prebackupactionv1
