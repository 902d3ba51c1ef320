// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pluginv1 is the service by which a plugin process says what it provides. It is
// generated from the .proto file beside it; see package proto for the protocol.
package pluginv1
