// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package results collects the warnings and errors of a run: the problems of single objects, of kinds
// and of the run itself. They are the content of the results file, in the format of Velero's
// "<name>-results.gz" with an addition, and the first of them are in the status of the run.
//
// A Collector receives them from many goroutines during a run; Collector.Results returns
// the sorted result.
//
// It is not a log, and not for failures that end a run: those are returned as errors.
package results
