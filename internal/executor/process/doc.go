// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs hook actions that live in a plugin process next to the
// operator.
//
// An [Executor] stands for one action. For every call it asks for the process that
// currently provides the action (a process may be replaced between two calls),
// makes the call with the deadline of the attempt, and translates what comes back
// into the terms of package executor:
//
//	cannot be started, connection lost    Unreachable
//	no answer before the deadline         Timeout
//	error, panic, answer that breaks the  Failed
//	contract
//	request too large, no such action     Invalid
//	ctx cancelled                         Interrupted
//
// It is NOT the place where processes are managed (plugin/process) or messages are
// translated (plugin/adapter).
package process
