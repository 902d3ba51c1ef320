// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults injects faults that do not kill: hostile objects and buckets, paused
// leaders, stores that stall or are full, and clocks that are wrong. Each spec runs
// operators as processes against a real API server. docs/faults.md lists the faults
// and the specs that show their results.
package faults
