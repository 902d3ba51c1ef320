// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actiontest runs tables of tests for restore item actions. Each case
// is also run with every value of its object replaced by values of other types:
// archives may contain anything, and an action must not panic over it.
package actiontest
