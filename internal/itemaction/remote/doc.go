// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote has the common code for calls of all item actions of plugins, independent
// of what they do with objects:
//
//	Spec     an action of a plugin, and how to call it
//	Action   one action in one run: ResolveSelector requests its selector once,
//	         CallForItem makes one call for one object
//	Cancel   ends an operation, even of a run that has ended, or one whose
//	         answer was rejected
//
// Calls have a deadline. An action that no longer answers is given up for the rest of the
// run (external.CircuitBreaker). Errors are one line that names the plugin and contains no
// secrets.
//
// The callers decide what is sent and validate what is returned.
package remote
