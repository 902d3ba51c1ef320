// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runlog stores the logs of a run until they can be stored with the run.
//
// A Store has one file per run and stream below a scratch directory. What belongs to the
// backup itself goes to one stream, the logs of its PostBackup actions to another. Files
// are appended to, so a restarted operator continues where the previous one stopped. If the
// directory is lost, the lines that were not stored yet are lost too.
//
// Lines are redacted before they reach the file. A file has a limit; further lines are
// dropped, and the last line reports that. Each line also goes to the operator's output, with the name
// of the run, where a log collector finds it during the run.
package runlog
