// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package results collects the warnings and errors of a run about single objects, sorted by
// scope, in the structure and file format of Velero's "<name>-results.gz".
//
// A Collector receives them from many goroutines during a run; Collector.Results returns
// the sorted result. The totals go into the status of the run, the messages themselves only
// into its results file.
//
// It is not a log, and not for failures that end a run: those are returned as errors.
package results
