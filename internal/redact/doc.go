// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact removes secrets from text that people or other systems will
// read: log lines, errors, statuses and events.
//
// A [Redactor] works in two ways. It recognizes shapes that only secrets have
// (private keys, bearer tokens, "password=...", credentials in URLs and so on),
// and it knows exact values that were registered with AddValues, for example the
// environment of a plugin. Several shapes are matched generously: a harmless
// value that looks like a secret is lost, which costs less than the reverse.
//
// For logs there are Logger (logr), ReplaceAttr (log/slog) and [Stream], which
// also recognizes a private key that is printed over several lines.
//
// It is NOT a permission to handle secrets carelessly: a secret without a
// recognizable shape that nobody registered passes through.
package redact
