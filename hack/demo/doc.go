// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Demo shows one backup, its restore and its deletion from beginning to end on a real API
// server on this machine:
//
//	go run ./hack/demo [-keep]
//
// It starts a control plane, installs Grapnel, creates a small application, runs an
// example plugin, and backs the application up. Then it deletes the application,
// restores it, one namespace into another one, and compares every object with what
// it was, field by field. At last it has the backup destroyed. It shows each kubectl command, so that it can be tried
// again, what happens while it happens, and what came of it; and it checks that all
// of it is as it should be and exits with 1 if anything is not.
//
// Its files are in bin/demo, which every run recreates. Everything that it starts
// ends with it; with -keep that is when it is interrupted.
//
//	main.go             the command line
//	demo.go             the steps up to the backup
//	restore.go          the steps after it
//	delete.go           the end of the backup, and what came of it
//	kubectl.go          commands that are shown and run
//	data.go             the data of a claim, which an operation of the plugin copies
//	settle.go           waiting for the controllers of Kubernetes
//	follow.go           what happens while a backup or restore runs
//	ran.go              what came of it, read from the cluster and the store, as far
//	                    as it is the same for both
//	facts.go            the same of the backup only
//	restorefacts.go     the same of the restore only
//	report.go           what came of the backup, for people
//	restorereport.go    what came of the restore, for people
//	verifyrun.go        the same of both, for the exit code
//	verify.go           the same of the backup only
//	restoreverify.go    the same of the restore only
//	snapshot.go         the objects of the application at one time
//	compare.go          how they differ from those of another time
//	bydesign.go         which differences are meant to be
//	print.go            the layout of the output
//	manifests/          what is applied
package main
