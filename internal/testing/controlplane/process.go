// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
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

// startProgram starts a program that is not envtest's, with a log of its own.
func startProgram(dir, path string, args ...string) (*program.Process, error) {
	log, err := openLog(dir, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // The program has its own descriptor.
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	return program.Start(cmd)
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
