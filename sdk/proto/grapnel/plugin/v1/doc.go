// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pluginv1 is the service by which a plugin says what it provides, and the one by
// which a plugin that was not started by the operator hands over its log lines. It is
// generated from the .proto files beside it; see package proto for the protocol.
package pluginv1
