// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin is an object store provided by a plugin of kind ObjectStore, for example
// one of Velero's.
//
// A [Store] makes every call through a caller.Caller. The Caller knows the process that
// currently provides the store, and restarts that process after it exits. By then the
// process has received the configuration of the location. Store translates the answers of
// plugins to the contract of package objectstore.
//
// The interface of these plugins has limits that Store cannot remove:
//
//   - There is no put-if-absent, and a list returns only keys: see
//     objectstore.Capabilities. Stat reads the whole object.
//   - A list arrives as one message. Store sorts it.
//   - An error is a text. Store asks the plugin whether an object exists. If access is
//     denied, or the bucket does not exist, the caller gets the text of the plugin.
//
// A list, an existence check or a deletion has a deadline. A Put or Get may take any time
// while it makes progress. The time in which the caller reads or writes the content does
// not count. If the process exits during a call, Store retries the call once where that is
// safe; it leaves the retry of Put and Get to the caller.
//
// It is NOT concerned with processes, configuration or credentials: see package
// internal/storage/location and the plugin catalog.
package plugin
