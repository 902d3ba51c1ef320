// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package env is the environment of tests that run the operator as a process: a control
// plane, the programs, and operators, each with its own namespace, directory and default
// location.
//
//	var world env.Env
//
//	var _ = BeforeSuite(func() { Expect(world.Start(env.Options{})).To(Succeed()) })
//	var _ = AfterSuite(func() { Expect(world.Stop()).To(Succeed()) })
//
//	var _ = Describe("A Backup", func() {
//		It("ends", func() {
//			t := GinkgoTB()
//			ns := world.StartOperator(t, "--max-concurrent-backups=1")
//			b := env.Create(t, world.Client, ns.NewBackup(world.CreateApp(t, 2)))
//			env.WaitFor(t, world.Client, b, "it has ended", func(b *v1alpha1.Backup) bool { ... })
//		})
//	})
//
// [Env.SharedOperator] is one operator for all tests that do not need their own, and
// [Env.NewFaultPlugin] returns a Plugin that does what a test configures. After the last
// test, the logs of all operators are searched for secrets.
//
// Tests that run a controller in their own process use package suite.
package env
