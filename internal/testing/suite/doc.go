// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite is the shared environment of controller tests: one API server for all tests
// of a package, and a namespace and a manager for each.
//
//	var cluster suite.Cluster
//
//	func TestMain(m *testing.M) { os.Exit(cluster.RunTests(m)) }
//
//	func TestThing(t *testing.T) {
//		env := cluster.NewEnv(t)
//		env.StartManager(func(mgr ctrl.Manager) error { return reconciler(mgr).SetupWithManager(mgr) })
//		thing := suite.Create(env, newThing())
//		suite.WaitFor(env, thing, func(thing *v1alpha1.Thing) string { ... })
//	}
//
// The first test that needs the API server starts it, so that tests of pure functions in
// the same package do not wait for it.
package suite
