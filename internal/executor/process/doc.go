// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs hook actions in a plugin process next to the operator.
//
// An [Executor] stands for one action. For every call it requests the process that currently
// provides the action (a process may be replaced between two calls), makes the call with the
// deadline of the attempt, and translates the result into the terms of package executor:
//
//	cannot be started, connection lost    Unreachable
//	no answer before the deadline         Timeout
//	error, panic, answer that breaks the  Failed
//	contract
//	request too large, no such action     Invalid
//	ctx canceled                          Interrupted
//
// Process management (plugin/process) and message translation (plugin/adapter) do NOT belong
// here.
package process
