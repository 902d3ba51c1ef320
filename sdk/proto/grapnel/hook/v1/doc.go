// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hookv1 holds the messages that the services of all hook actions share: what one call
// says to a plugin, and what it answers. It is
// generated from the .proto file beside it; see package proto for the protocol.
package hookv1
