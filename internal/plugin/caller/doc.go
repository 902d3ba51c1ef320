// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package caller makes calls to single actions of plugins.
//
// A [Caller] looks up which process provides the action now and how to call it, since
// plugins are replaced while the operator runs; makes the call; and says in words for
// people, without secrets, what went wrong around it. What a call means is the business
// of those who use it: the executor of hooks, and the item actions of the engines.
package caller
