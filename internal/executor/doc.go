// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package executor defines how to run a hook action, independent of where the action runs.
//
// A caller builds a [Call], passes it to an [Executor] and gets an [Answer] or an [Error]. The
// sub-packages implement Executor, one for each place in which an action can run. For example,
// job runs it as a Kubernetes Job. The Executor of actions of a plugin process is in
// internal/plugin/catalog.
//
// Every executor follows this contract:
//
//   - The ctx carries the deadline of the attempt. When it passes, Execute returns promptly with
//     an error of kind [Timeout], even if the action does not react.
//   - The ctx carries the logger of the run (logr.FromContextOrDiscard). The output of the action
//     is logged there line by line. Nothing is written to it after Execute has returned.
//   - An error is always an *[Error]. Its text is one line of at most [MaxMessageLength] bytes,
//     starts with "Kind(action name): ", contains no secret that
//     [github.com/grapnel-dev/grapnel/internal/redact] knows, and is the same for the same cause:
//     it contains no process IDs, ports, paths of temporary files or times. It can therefore be
//     copied unchanged to a status or an event.
//
// Retries, failure policies and the order of actions do NOT belong here; the callers implement
// them.
package executor
