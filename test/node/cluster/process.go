// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/grapnel-dev/grapnel/test/node/host"
	"github.com/grapnel-dev/grapnel/test/node/proc"
)

// processes starts components and knows which of them have ended. It may be used
// concurrently.
type processes struct {
	layout layout
	record *record

	mu    sync.Mutex
	ended map[string]error
}

// start starts a component that continues when this program has ended.
func (p *processes) start(c component) error {
	program := c.program
	if !filepath.IsAbs(program) {
		var err error
		if program, err = host.Find(program); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(p.layout.log(c.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", c.name, err)
	}
	defer func() { _ = log.Close() }() // The process has its own descriptor.
	cmd := exec.Command(program, c.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.layout.State, log, log
	// Nothing else of this environment: proxies, above all, are not for a cluster whose
	// every address is on this machine.
	cmd.Env = []string{"PATH=" + host.Path, "HOME=" + p.layout.State, p.layout.marker()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", c.name, err)
	}
	id, err := proc.Of(cmd.Process.Pid)
	if errors.Is(err, proc.ErrGone) {
		err = nil // The wait below finds out why.
	}
	p.record.Processes[c.name] = id
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("exit status 0")
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended[c.name] = err
	}()
	return errors.Join(err, p.record.write(p.layout.State))
}

// check fails if a process has ended.
func (p *processes) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, err := range p.ended {
		return fmt.Errorf("%s has ended: %w%s", name, err, p.layout.tail(name))
	}
	return nil
}

func (l layout) log(name string) string {
	return filepath.Join(l.logs(), name+".log")
}

// tail returns the last lines of the logs of processes, to be appended to an error.
func (l layout) tail(names ...string) string {
	const lines = 20
	var tails strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(l.log(name))
		if err != nil {
			fmt.Fprintf(&tails, "\n--- no log of %s: %v", name, err)
			continue
		}
		fmt.Fprintf(&tails, "\n--- end of %s\n%s", l.log(name), lastLines(string(content), lines))
	}
	return tails.String()
}

// lastLines returns the last lines of a text, none of them of any length.
func lastLines(text string, n int) string {
	const width = 1000
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	all = all[max(0, len(all)-n):]
	for i, line := range all {
		if len(line) > width {
			all[i] = line[:width] + "…"
		}
	}
	return strings.Join(all, "\n")
}
