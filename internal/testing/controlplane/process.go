// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// wrapperScript runs a program that is killed when the thread that started it ends. If
// setpriv does not support that, the program just runs.
const wrapperScript = `#!/bin/sh
program='%s'
echo $$ >"$0.pid"
if setpriv --pdeathsig KILL true 2>/dev/null; then
	exec setpriv --pdeathsig KILL "$program" "$@"
fi
exec "$program" "$@"
`

// writeWrapperScript writes a script that starts program and returns its path. envtest has no
// other way to influence how it starts a program.
func writeWrapperScript(dir, program string) (string, error) {
	path := filepath.Join(dir, filepath.Base(program)+".sh")
	quoted := strings.ReplaceAll(program, "'", `'\''`)
	if err := os.WriteFile(path, fmt.Appendf(nil, wrapperScript, quoted), 0o700); err != nil {
		return "", fmt.Errorf("writing the wrapper of a program: %w", err)
	}
	return path, nil
}

// readWrappedPID returns the process ID of a wrapped program, which is the process ID of
// its script.
func readWrappedPID(dir, name string) (int, error) {
	content, err := os.ReadFile(filepath.Join(dir, name+".sh.pid"))
	if err != nil {
		return 0, fmt.Errorf("reading the process ID of %s: %w", name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("reading the process ID of %s: %w", name, err)
	}
	return pid, nil
}

// startLoggedProgram starts a program that envtest does not know, with its own log.
func startLoggedProgram(dir, path string, args ...string) (*program.Process, error) {
	log, err := openLogFile(dir, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // The program has its own file descriptor.
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	return program.Start(cmd)
}

func openLogFile(dir, name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	return file, nil
}

// readLogTails returns the last lines of every log: they usually contain the reason for a
// failed start, and the logs are about to be removed.
func readLogTails(dir string) string {
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
