// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package polls records which calls about operations a plugin got, and when. The plugin of
// the benchmark writes them to a file, and the benchmark computes how regular they were.
//
//	log.go    the file: one line for each call
//	count.go  how many polls of a period were late
//
// The plugin measures the times, so that what happens to a call on its way counts.
package polls
