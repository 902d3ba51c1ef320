// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone says that there is no such process any more.
var ErrGone = errors.New("the process has ended")

// ID names one process, also for programs that run later.
type ID struct {
	PID int `json:"pid"`
	// Start is when it was started, in the kernel's ticks since the boot.
	Start uint64 `json:"start"`
	// Boot is the kernel's name for the time since it was booted.
	Boot string `json:"boot"`
}

// Of returns the ID of a running process, or ErrGone.
func Of(pid int) (ID, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return ID{}, ErrGone
	}
	if err != nil {
		return ID{}, fmt.Errorf("looking for process %d: %w", pid, err)
	}
	state, start, err := parseStat(string(stat))
	if err != nil {
		return ID{}, fmt.Errorf("reading the status of process %d: %w", pid, err)
	}
	if state == 'Z' || state == 'X' {
		return ID{}, ErrGone
	}
	boot, err := Boot()
	return ID{PID: pid, Start: start, Boot: boot}, err
}

// Boot returns the kernel's name for the time since it was booted.
func Boot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading which boot this is: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// parseStat reads the state and the time of the start, fields 3 and 22 of proc(5).
func parseStat(stat string) (state byte, start uint64, err error) {
	// The second field is the program's name in parentheses, and may itself have
	// some, and spaces.
	_, rest, found := cutLast(stat, ") ")
	fields := strings.Fields(rest)
	const first, startTime = 3, 22
	if !found || len(fields) <= startTime-first {
		return 0, 0, fmt.Errorf("unexpected form: %q", stat)
	}
	start, err = strconv.ParseUint(fields[startTime-first], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("unexpected time of the start: %w", err)
	}
	return fields[0][0], start, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Alive reports whether the process runs.
func (id ID) Alive() bool {
	now, err := Of(id.PID)
	return err == nil && now == id
}

// open returns a descriptor of the process, or ErrGone.
func (id ID) open() (int, error) {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return -1, ErrGone
	}
	if err != nil {
		return -1, fmt.Errorf("opening process %d: %w", id.PID, err)
	}
	// Asked afterwards: what the descriptor stands for can no longer change.
	if !id.Alive() {
		_ = unix.Close(fd)
		return -1, ErrGone
	}
	return fd, nil
}

// Stop asks the process to end, and kills it if it has not after grace, which may be 0.
// It returns when the process has ended, which is no error if it had before. It fails
// if the process has not even ended some seconds after it was killed, or ctx ends.
func (id ID) Stop(ctx context.Context, grace time.Duration) error {
	fd, err := id.open()
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if grace > 0 {
		if ended, err := signalAndWait(ctx, fd, unix.SIGTERM, grace); ended || err != nil {
			return err
		}
	}
	const afterKill = 10 * time.Second
	ended, err := signalAndWait(ctx, fd, unix.SIGKILL, afterKill)
	if err == nil && !ended {
		err = fmt.Errorf("process %d has not ended %s after it was killed", id.PID, afterKill)
	}
	return err
}

func signalAndWait(ctx context.Context, fd int, signal syscall.Signal, within time.Duration) (ended bool, err error) {
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); errors.Is(err, unix.ESRCH) {
		return true, nil
	} else if err != nil {
		return false, fmt.Errorf("sending a signal: %w", err)
	}
	const step = 100 * time.Millisecond // How late the end of ctx may be noticed.
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		// The descriptor becomes readable when the process ends.
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(step.Milliseconds()))
		if n > 0 {
			return true, nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("waiting for the end of a process: %w", err)
		}
	}
	return false, nil
}

// Marked returns the processes that have the variable, as NAME=VALUE, in the
// environment that they were started with. This program itself is left out.
func Marked(variable string) ([]ID, error) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	var found []ID
	for _, path := range environments {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// The ID first: should the number be reused meanwhile, the environment belongs to
		// another process and the ID matches none.
		id, err := Of(pid)
		if err != nil {
			continue // It has ended.
		}
		environment, err := os.ReadFile(path)
		if err == nil && hasVariable(environment, variable) {
			found = append(found, id)
		}
	}
	return found, nil
}

func hasVariable(environment []byte, variable string) bool {
	for one := range bytes.SplitSeq(environment, []byte{0}) {
		if string(one) == variable {
			return true
		}
	}
	return false
}
