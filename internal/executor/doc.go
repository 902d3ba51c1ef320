// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package executor defines what it means to run a hook action, independent of
// where the action lives.
//
// A caller builds a [Call], gives it to an [Executor] and gets an [Answer] or an
// [Error]. The sub-packages implement Executor, one per place an action can run
// in: process calls a plugin process that runs next to the operator.
//
// The contract that every executor keeps:
//
//   - The ctx carries the deadline of the attempt. When it passes, Execute
//     returns promptly with an error of kind [Timeout], even if the action does
//     not react.
//   - The ctx carries the logger of the run (logr.FromContextOrDiscard). What
//     the action logs goes there, line by line, and nothing is written to it
//     any more once Execute has returned.
//   - An error is always an *[Error]. Its text is one line of at most
//     [MaxMessageLength] bytes, starts with "Kind(action name): ", holds no
//     secret that [github.com/grapnel-dev/grapnel/internal/redact] knows, and is
//     the same for the same cause: no process ids, ports, paths of temporary
//     files or times. So it can go to a status or an event as it is.
//
// It is NOT the place for retries, failure policies or the order of actions;
// those belong to the callers.
package executor
