// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal remembers on disk which pieces of work go on, so that the next process
// with the same disk knows which of them were under way when the last one crashed.
//
// Each piece is an empty file, which is removed when the work ends, or when the process is
// asked to end: only a process that crashed, or was killed for the memory it used, leaves
// files behind. Its name has the boot of the machine: if that is another one, the machine crashed,
// and not the process. A disk that is lost with its node, or with its pod, tells nothing. See
// docs/adr/0013.
package journal
