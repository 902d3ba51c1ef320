// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tells the stories of a Backup to the operator, run as a
// process against a real API server, and checks what a user would see: the
// phase and its message, events, HookRuns, and the files in the store.
//
// All tests share a control plane and the Plugins of plugins_test.go, whose actions
// run only for Backups that ask for them with a label. A test that needs an operator
// of its own starts one for a namespace of its own. Every version of
// every object is recorded (chronicle_test.go), so that a test can wait for a moment
// that is over before it looks, and so that the rules that hold for every Backup are
// checked after every test (rules_test.go).
//
// Tests that change what every Backup meets, such as a Plugin that cannot be loaded,
// do not run in parallel with others.
package integration
