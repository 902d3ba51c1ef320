// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logline parses the log lines of plugins that run next to the operator (package
// process) or at an address (package endpoint).
//
//	Parser   a line → a Record: redacted, and without terminal control sequences
//	Record   one line and the call it claims to belong to; LogTo logs it
//	CallBudget  how much one call may log
//	SanitizeLine  any text of a plugin as one line that may be shown
//
// A line is a JSON object in the format of hclog, with the fields of package sdk/proto, or
// any text. Nothing in it is trusted: long values are truncated, secrets are replaced, and
// a line never becomes two.
package logline
