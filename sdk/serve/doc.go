// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serve is the main function of a plugin: register the actions, call
// Serve.
//
//	func main() {
//		serve.New().
//			RegisterPreBackupActionV1("example.io/freeze", newFreeze).
//			RegisterPostBackupActionV1("example.io/freeze", newThaw).
//			Serve()
//	}
//
// Names look like "example.io/freeze": a DNS name you own, one slash, and a name;
// or just a name without a slash. A name is unique per kind and version, and may
// be used for several kinds (a pair of pre and post action, or two pairs).
//
// Serve speaks go-plugin's protocol with the operator (the same handshake as
// Velero's), lists the registered actions and answers the calls:
//
//	registry   what is registered; creates each action once, when first needed
//	keyed      lets only one call per idempotency key run at a time
//	hook       one call: request in, action, response or status out
//	server     the registration methods, Install and Serve
//
// It is NOT for running actions inside a test; see package plugintest.
package serve
