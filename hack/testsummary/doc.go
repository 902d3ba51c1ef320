// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Testsummary makes the output of several `go test -json` runs readable.
//
//	go test -json ./... 2>&1 | testsummary -record FILE
//
// copies its input to FILE and prints one line for each package that ends.
//
//	testsummary FILE...
//
// prints what failed, with its output, and as its very last line
// "N passed, N failed", with ", N skipped" where there are any. It exits with 1
// if anything failed or is missing: a test, a package that did not build, a run
// that was cut off, a file without a run, or a result of no test at all.
//
// Whoever runs go test may add its exit code to FILE, as an event with the action
// "exit" and the code as output; an unexplained one counts as a failure.
//
// What counts is the single case: a test with subtests is not counted beside
// them, unless it failed and none of them did. For a Ginkgo suite it is the spec: the last
// line of the suite has the numbers.
package main
