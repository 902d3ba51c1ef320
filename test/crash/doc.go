// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crash tests that killing the operator at any moment, and starting it
// again, ends like a run that nobody disturbed: in the same phase, with the same
// archive, and with everything paid that was owed.
//
// It looks at the operator from outside. Between a real operator process and the
// API server, and between it and an S3 server, stands a [gate] each, which counts
// what is written for one Backup and, at the k-th write, kills the operator: before
// the write is passed on, so that it is lost, or after it was answered, so that
// only the answer is. Plugin calls are counted, and killed at, by the plugin of
// test/faultplugin. Every k gets a Backup of its own.
//
// There is nothing here but tests.
package crash
