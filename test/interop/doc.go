// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interop compares Grapnel with the published packages of Velero.
//
// It is a separate module so that Grapnel does not depend on Velero. The
// behavior that users of Velero rely on is checked against Velero itself, on generated
// inputs, and not against a reading of its source. The inputs are the
// same in every run (fixed seed and number of checks); a failure is shrunk to
// a minimal example.
//
// Where Grapnel deliberately decides otherwise, the test says so in a variable
// or function whose name starts with "allowed", with the reason next to it. A
// difference that is not listed there fails.
//
// Run it with "go test ." in this directory. For other inputs:
// "go test . -rapid.seed=7 -rapid.checks=100000". Below it:
//
//	restore     a Velero server and Grapnel restore each other's backups
//	plugins     plugins built with two releases of Velero run under Grapnel
//	stories     the same plugins take part in Backups and Restores of an operator
//	sdkplugins  plugins built with Grapnel's SDK run under Velero's plugin manager
package interop
