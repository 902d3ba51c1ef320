// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact removes secrets from text for users or other systems: log lines, errors,
// statuses and events.
//
// A [Redactor] works in two ways. It recognizes patterns that only secrets have (private
// keys, bearer tokens, "password=...", credentials in URLs and so on), and it removes exact
// values that were registered with AddValues, for example the environment of a plugin.
// Several patterns are broad: a harmless value that looks like a secret is lost, which
// costs less than the reverse.
//
// For logs there are Logger (logr), ReplaceAttr (log/slog) and [Stream], which also
// recognizes a private key that spans several lines.
//
// It is NOT a permission to handle secrets carelessly: a secret without a recognizable
// pattern that was not registered passes through.
package redact
