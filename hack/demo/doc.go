// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Demo shows one backup, its restore and its deletion from beginning to end on a real API
// server on this machine:
//
//	go run ./hack/demo [-keep]
//
// It starts a control plane, installs Grapnel, creates a small application, runs an
// example plugin, and backs the application up. Then it deletes the application,
// restores it, one namespace into another one, and compares every object with its
// original, field by field. At last it deletes the backup. It shows each kubectl command, so that
// it can be repeated, shows the progress, and shows the results. It verifies all
// results and exits with 1 if any is wrong.
//
// Its files are in bin/demo, which every run recreates. Everything that it starts
// ends with it; with -keep, it ends when it is interrupted.
//
//	main.go             the command line
//	demo.go             the steps up to the backup
//	restore.go          the steps after it
//	delete.go           the deletion of the backup, and its result
//	kubectl.go          commands that are shown and run
//	data.go             the data of a claim, which an operation of the plugin copies
//	settle.go           waiting for the controllers of Kubernetes
//	follow.go           the progress of a backup or restore
//	ran.go              its result, read from the cluster and the store, as far
//	                    as it is the same for both
//	facts.go            the same for the backup only
//	restorefacts.go     the same for the restore only
//	report.go           the result of the backup, for users
//	restorereport.go    the result of the restore, for users
//	verifyrun.go        the checks of both, for the exit code
//	verify.go           the checks of the backup only
//	restoreverify.go    the checks of the restore only
//	snapshot.go         the objects of the application at one time
//	compare.go          how they differ from those of another time
//	bydesign.go         which differences are intended
//	print.go            the layout of the output
//	manifests/          what is applied
package main
