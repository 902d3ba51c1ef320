// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// wrapper runs a program that is killed when the thread that started it ends.
// Where setpriv cannot arrange that, the program just runs.
const wrapper = `#!/bin/sh
program='%s'
if setpriv --pdeathsig KILL true 2>/dev/null; then
	exec setpriv --pdeathsig KILL "$program" "$@"
fi
exec "$program" "$@"
`

// wrap writes a script to start program with and returns its path. envtest gives
// no other way to influence how it starts one.
func wrap(dir, program string) (string, error) {
	path := filepath.Join(dir, filepath.Base(program)+".sh")
	quoted := strings.ReplaceAll(program, "'", `'\''`)
	if err := os.WriteFile(path, fmt.Appendf(nil, wrapper, quoted), 0o700); err != nil {
		return "", fmt.Errorf("writing the wrapper of a program: %w", err)
	}
	return path, nil
}

// process is a running program that is not envtest's.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // Closed when the program has ended.
	err  error         // How it ended; set before done is closed.
}

func startProcess(dir, program string, args ...string) (*process, error) {
	path, err := wrap(dir, program)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(program)
	log, err := openLog(dir, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // The program has its own descriptor.
	p := &process{name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A group of its own: an interrupt typed at the terminal is for the tests,
	// which then stop their programs in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// exited returns an error if the program has ended by itself.
func (p *process) exited() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended: %w", p.name, errors.Join(p.err, errors.New("nobody stopped it")))
	default:
		return nil
	}
}

// stop asks the program to end, kills it if it does not, and returns once it has
// ended.
func (p *process) stop() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

func openLog(dir, name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	return file, nil
}

// logTails returns the last lines of every log: the reason of a failed start is
// hardly ever anywhere else, and the logs are about to be removed.
func logTails(dir string) string {
	const lines = 15
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return ""
	}
	var tails strings.Builder
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil || len(content) == 0 {
			continue
		}
		all := strings.Split(strings.TrimSpace(string(content)), "\n")
		all = all[max(0, len(all)-lines):]
		fmt.Fprintf(&tails, "\n--- end of %s\n%s", filepath.Base(path), strings.Join(all, "\n"))
	}
	return tails.String()
}
