// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logline reads the lines that plugins log, wherever they run: next to the operator
// (package process) or at an address (package endpoint).
//
//	Parser   a line → a Record: redacted, and cleaned of what a terminal would obey
//	Record   one line, and the call it says it belongs to; Write logs it
//	Budget   how much one call may log
//	Clean    any text of a plugin as one line that may be shown
//
// A line is a JSON object in the format of hclog, with the fields of package sdk/proto, or
// any text. Nothing in it is trusted: what is too long is cut, a secret is replaced, and no
// line becomes two.
package logline
