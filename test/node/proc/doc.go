// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proc finds, watches and ends processes that an earlier program has started.
//
// A number alone does not tell which process it is: the kernel uses it again. An [ID]
// has the time of the start, too, and the boot, and signals go through a file
// descriptor of the process, so that no other process is ever hit.
//
// [Marked] finds processes by a variable in their environment, whichever program started them.
//
// It is for Linux and not for production code.
package proc
