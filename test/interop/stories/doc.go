// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stories tells users' stories about plugins for Velero to a running operator:
// a Plugin names a binary that was built with Velero's framework, and Backups and
// Restores have its actions change, add and leave out objects.
//
// What the actions do is in the annotations of the objects; see package actions below
// ../plugins. That package has the tests of every single call.
package stories
