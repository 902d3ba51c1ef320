// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package polls knows which calls about operations a plugin got, and when: the plugin of
// the benchmark writes them to a file, and the benchmark reads how regular they were.
//
//	log.go    the file: one line for each call
//	count.go  how many polls of some time came late
//
// The plugin takes the times, so that what happens to a call on its way counts.
package polls
