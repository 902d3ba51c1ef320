// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package results holds what a run has to say about single objects: its
// warnings and errors, sorted by where they belong, in the shape and file
// format of Velero's "<name>-results.gz".
//
// A Collector takes them from many goroutines while a run is under way;
// Collector.Results returns the sorted outcome. The totals go into the status
// of the run, the messages themselves only into its results file.
//
// It is not a log, and not for failures that end a run: those are returned as
// errors.
package results
