// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stories tests plugins for Velero with a running operator:
// a Plugin names a binary that was built with Velero's framework, and its actions change, add
// and skip objects in Backups and Restores.
//
// Annotations of the objects set what the actions do; see package actions below
// ../plugins. That package has the tests of every single call.
package stories
