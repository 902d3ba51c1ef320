// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduled tells which Backups a Schedule created, and what each of them is to
// the decisions of package schedule.
//
// The controller of Schedules asks it, to create and to limit Backups; so does who wants to
// know whether keepLast protects one.
//
// It is pure.
package scheduled
