// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storeplugin makes a test program a plugin that provides an ObjectStore in a
// directory, and that dies on request. Nothing has to be built: the program starts itself.
//
//	func TestMain(m *testing.M) {
//		storeplugin.ServeIfAsked()
//		os.Exit(m.Run())
//	}
//
//	dir := storeplugin.NewBucketDir(t)
//	catalog.Load(ctx, dir.PluginSpec("store"))
//
// Unlike test/exampleplugin, it is not an example: it exists to fail.
//
// It is for tests only.
package storeplugin
