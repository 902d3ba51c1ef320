// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storeplugin makes a test program a plugin that provides an ObjectStore in a
// folder, which dies when it is told to. Nothing has to be built: the program starts
// itself.
//
//	func TestMain(m *testing.M) {
//		storeplugin.ServeIfAsked()
//		os.Exit(m.Run())
//	}
//
//	folder := storeplugin.NewBucketDir(t)
//	catalog.Load(ctx, folder.Spec("folder"))
//
// Other than test/exampleplugin it is no example: it exists to break.
//
// It is for tests only.
package storeplugin
