// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ready reports when an operator can work: when its caches are filled.
//
// A standby operator fills its caches, too. It can therefore work at once when it
// takes over.
package ready
