// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin is an object store that is kept by a plugin with the kind
// ObjectStore, for example one of Velero's.
//
// A [Store] makes every call through a caller.Caller, which knows the process that
// provides the store now and starts it again when it ended; the process has been
// given the configuration of the location by then. Store turns what plugins answer
// into the contract of package objectstore.
//
// What the interface of these plugins lacks, no code here can add:
//
//   - There is no put-if-absent, and keys are all that a list tells: see
//     objectstore.Capabilities. Stat reads the whole object.
//   - A list comes in one piece. It is sorted here.
//   - An error is a text. Whether an object exists is found out by asking; who has no
//     access, or whose bucket does not exist, gets the plugin's words.
//
// A list, a look or a deletion has a deadline. A Put or Get may take as long as it
// wants to while it makes progress; the time that the caller takes to bring or to
// take the content does not count. What was lost with its process is tried once more
// where that can do no harm; Put and Get are left to the caller.
//
// It is NOT concerned with processes, configuration or credentials: package
// internal/kube/location and the plugin catalog are.
package plugin
