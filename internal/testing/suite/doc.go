// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite is what the tests of controllers share: one API server for all
// tests of a package, a namespace and a manager of its own for each.
//
//	var cluster suite.Cluster
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }
//
//	func TestThing(t testing.TB) {
//		env := cluster.Env(t)
//		env.Operate(func(mgr ctrl.Manager) error { return reconciler(mgr).SetupWithManager(mgr) })
//		thing := suite.Create(env, newThing())
//		suite.Await(env, thing, func(thing *v1alpha1.Thing) string { ... })
//	}
//
// The API server is started by the first test that asks for it, so that tests of
// pure functions in the same package do not wait for it.
package suite
