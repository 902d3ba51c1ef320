// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tracing exports one OpenTelemetry trace for each Backup, Restore and DeletionRun: a span for the run and for each of
// its stages, for each attempt of its hooks, and for each of its operations.
//
// A run may outlive the operator, so no span is open in memory. Spans are exported when a status with their end was
// written, with the times in that status, and all IDs are derived from UIDs: the trace ID of a run is its UID. An
// operator that takes over exports the same spans again rather than lose those that its predecessor did not send.
//
// The context of work for a run carries the traceparent of its span, which plugins, webhooks and Jobs get.
package tracing
