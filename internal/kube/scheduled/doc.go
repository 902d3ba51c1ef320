// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduled finds the Backups that a Schedule created, and converts them to the input
// of package schedule.
//
// The controller of Schedules uses it to create and to limit Backups. Package destroy uses it to
// check whether keepLast protects a Backup.
//
// It is pure.
package scheduled
