// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Perf measures the operator against what the API server and the disk allow, in
// one run and on one machine.
//
//	go run ./test/perf [-objects N] [-namespaces N] [-rounds N] [-large-objects N]
//	        [-large-namespaces N] [-operations N] [-plugins N] [-stored N] [-expired N]
//	        [-only mix|scale|operations|deletions] [-out FILE]
//
// It starts a control plane without controllers, fills it, runs the operator as a
// real process, creates Backups and Restores and watches them to their end. It
// prints a table and writes the same figures to bin/bench.json; a missed target
// makes it exit with 1. Only the run with the default numbers is the benchmark; smaller ones are
// for trials. docs/performance.md explains the figures.
//
//	main.go      the order of things
//	set-up       environment.go (control plane, operator), load/ (the objects)
//	watching     watch.go, backups.go, restores.go, runlog.go
//	figures      archive.go, memory.go, small.go, items.go, restoring.go, scale.go, operations.go
//	             (with operationscluster.go, operationslimit.go, cpu/ and polls/), deletions.go (with
//	             deletionslimit.go, resync.go and idle.go), figure.go, machine.go
//	plugins      nothing/, whose action does nothing; operations/, which starts operations
//	limits       raw/ and limit/, a separate program
package main
