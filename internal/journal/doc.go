// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal records on disk which pieces of work are running. The next process with
// the same disk knows which of them were running when the last one crashed.
//
// Each piece of work is an empty file. The file is removed when the work ends, or when the
// process shuts down. Only a process that crashed, or was killed because of its memory usage,
// leaves files behind. The file name includes the boot ID of the machine: if that differs, the
// machine crashed, and not the process. A disk that is lost with its node or pod provides no
// information. See docs/adr/0013.
package journal
