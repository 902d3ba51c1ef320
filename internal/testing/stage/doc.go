// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stage sets the stage for stories that are told to the operator from outside:
// a control plane, the programs, and operators as processes, each with a namespace, a
// folder and a default location of its own.
//
//	var world stage.World
//
//	func TestMain(m *testing.M) { os.Exit(world.Run(m, stage.Options{})) }
//
//	func TestThing(t testing.TB) {
//		s := world.New(t, "--max-concurrent-backups=1")
//		b := stage.Create(t, world.Client, s.NewBackup(world.CreateApp(t, 2)))
//		stage.Await(t, world.Client, b, "it has ended", func(b *v1alpha1.Backup) bool { ... })
//	}
//
// [World.Shared] is one operator for all tests that need none of their own, and
// [World.NewFaultPlugin] a Plugin that does what a story wants. After the last test the
// logs of all operators are searched for secrets.
//
// Stories that look at a controller from inside use package suite.
package stage
