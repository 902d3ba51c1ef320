//go:build unix && !linux

// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import "syscall"

// childAttributes puts the child into its own process group. Systems other than Linux have
// no parent-death signal.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit returns false: here it is not possible to wait for a child without reaping it.
func awaitExit(int) bool { return false }

// preferForOOM does nothing.
func preferForOOM(int) {}
