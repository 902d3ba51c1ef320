// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite is the shared environment of controller suites: one API server for all specs
// of a package, and a namespace and a manager for each.
//
//	var cluster suite.Cluster
//
//	var _ = BeforeSuite(func() { Expect(cluster.Start()).To(Succeed()) })
//	var _ = AfterSuite(func() { Expect(cluster.Stop()).To(Succeed()) })
//
//	var _ = Describe("A thing", func() {
//		It("becomes ready", func() {
//			env := cluster.NewEnv(GinkgoTB())
//			env.StartManager(func(mgr ctrl.Manager) error { return reconciler(mgr).SetupWithManager(mgr) })
//			thing := suite.Create(env, newThing())
//			suite.WaitFor(env, thing, func(thing *v1alpha1.Thing) string { ... })
//		})
//	})
//
// Tests of pure functions in the same package are plain Go tests and do not wait for it.
package suite
