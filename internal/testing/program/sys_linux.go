// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import "syscall"

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
