// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package itemaction defines how the backup engine processes single objects before it
// writes them to the archive. It calls actions, which may change the object and may name
// other objects that it requires.
//
// The actions of Grapnel are below builtin/, each in a small package. Item actions of
// plugins are adapted to the same interface.
//
// The package does not know the selection: an action names the objects that an object
// requires, and the engine decides whether they may be in the backup.
package itemaction
