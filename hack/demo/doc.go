// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Demo shows one backup from beginning to end on a real API server on this machine:
//
//	go run ./hack/demo [-keep]
//
// It starts a control plane, installs Grapnel, creates a small application, runs an
// example plugin, and backs the application up. It shows each kubectl command, so
// that it can be tried again, what happens while it happens, and what came of it;
// then it checks that all of it is as it should be and exits with 1 if anything is
// not.
//
// Its files are in bin/demo, which every run makes anew. Everything that it starts
// ends with it; with -keep that is when it is interrupted.
//
//	main.go      the command line
//	demo.go      the steps
//	kubectl.go   commands that are shown and run
//	follow.go    what happens while the backup runs
//	facts.go     what came of it, read from the cluster and the store
//	report.go    the same for people
//	verify.go    the same for the exit code
//	print.go     the layout of the output
//	manifests/   what is applied
package main
