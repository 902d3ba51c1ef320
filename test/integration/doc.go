// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests Backups with the operator, run as a
// process against a real API server, and checks what a user would see: the
// phase and its message, events, HookRuns, and the files in the store.
//
// All tests share a control plane and the Plugins of plugins_test.go, whose actions
// run only for Backups that select them with a label. A test that needs its own operator
// starts one for its own namespace. Every version of
// every object is recorded (watchrecorder_test.go), so that a test can wait for a moment
// that has passed already, and so that the invariants of every Backup are
// checked after every test (rules_test.go).
//
// Tests that affect every Backup, such as those with a Plugin that cannot be loaded,
// do not run in parallel with others.
package integration
