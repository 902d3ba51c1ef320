// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugintest runs a plugin inside a test, over real gRPC, and checks its
// actions against what the operator expects of them.
//
//	func TestPlugin(t *testing.T) {
//		p := plugintest.Start(t, newServer())
//		resp, err := p.PreBackup(t.Context(), "example.io/freeze", plugintest.NewRequest())
//		...
//		resp, err = p.PreRestore(t.Context(), "example.io/freeze", plugintest.NewRestoreRequest())
//		...
//		plugintest.CheckContract(t, p, plugintest.Contract{})
//	}
//
// It is NOT a test of the process around the actions (handshake, flags): that is
// code of the SDK.
package plugintest
