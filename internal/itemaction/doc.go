// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package itemaction defines what the backup engine does with single objects
// on their way into the archive besides writing them: it asks actions, which
// may change the object and may name other objects that it needs.
//
// The actions that are part of Grapnel live below builtin/, one small package
// each. Item actions of plugins are adapted to the same interface.
//
// The package knows nothing about selection: an action names what an object
// needs, and the engine decides whether that is allowed into the backup.
package itemaction
