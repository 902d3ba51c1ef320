// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runlog keeps what a run logs until it can be stored with the run.
//
// A Book holds one file per run and stream below a scratch directory: what belongs
// to the backup itself goes to one stream, what its PostBackup actions log to
// another. Files are appended to, so that a restarted operator goes on where the
// one before it stopped; if the directory is lost, so are the lines that were not
// stored yet.
//
// Lines are redacted before they reach the file. A file has a limit; what comes
// after it is dropped, and the last line says so. It is not the operator's own
// log.
package runlog
