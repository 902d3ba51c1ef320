// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package actiontest runs table tests for restore item actions. It also runs each case with
// every value of its object replaced by values of other types: archives may contain
// anything, and an action must not panic.
package actiontest
