// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package caller makes calls to single actions of plugins.
//
// A [Caller] resolves the process that currently provides the action, because plugins are
// replaced while the operator runs. It makes the call and describes failures for users,
// without secrets. Its users, the executor of hooks and the item actions of the engines,
// interpret the results.
package caller
