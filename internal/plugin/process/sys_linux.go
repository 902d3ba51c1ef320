// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes puts the child into a process group of its own and ties its
// life to that of the thread that starts it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitForPendingExit waits until the child has ended, without reaping it, and returns true:
// as long as it is a zombie, its process id, which is also the id of its group, is
// not reused.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

// preferForOOM has the kernel end the child before this program when memory runs out. If
// that is not allowed, nothing is lost.
func preferForOOM(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("1000"), 0)
}
