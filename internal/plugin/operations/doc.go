// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operations asks actions of plugins about operations that they started: how far
// one is, and for its end.
//
// A call that does not succeed is not an error here but a Failure that says what can be
// concluded from it: whether the plugin answered, and whether it knows the operation. What
// becomes of the operation is decided elsewhere (internal/kube/operation). The texts that come
// back hold no secrets.
package operations
