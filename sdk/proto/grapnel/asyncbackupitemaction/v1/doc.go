// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package asyncbackupitemactionv1 is the service of actions that start operations on objects
// of a backup. It is generated from the .proto file beside it; see package proto for the
// protocol.
package asyncbackupitemactionv1
