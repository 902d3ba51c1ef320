// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// dataDir is the directory with the data of the operator.
type dataDir string

func (f dataDir) pluginDir() string  { return filepath.Join(string(f), "plugins") }
func (f dataDir) storeRoot() string  { return filepath.Join(string(f), "store") }
func (f dataDir) scratchDir() string { return filepath.Join(string(f), "scratch") }
func (f dataDir) logPath() string    { return filepath.Join(string(f), "operator.log") }

// createWithPlugins creates the directory, or updates the plugins in an existing one.
func (f dataDir) createWithPlugins(programs Programs) error {
	for _, dir := range []string{f.pluginDir(), f.storeRoot(), f.scratchDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating a directory of the operator: %w", err)
		}
	}
	for name, source := range map[string]string{"example": programs.ExamplePlugin, "fault": programs.FaultPlugin} {
		if source == "" {
			continue
		}
		if err := installProgram(source, filepath.Join(f.pluginDir(), name)); err != nil {
			return fmt.Errorf("installing the plugin %s: %w", name, err)
		}
	}
	return nil
}

// installProgram makes target the same program as source. On the same file system they are
// hard links; program.Build never writes to the file again.
func installProgram(source, target string) error {
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if os.Link(source, target) == nil {
		return nil
	}
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(target, content, 0o755)
}

// lastLogLines returns the last lines of the log that begin at or after offset, or
// nothing if it cannot be read.
func (f dataDir) lastLogLines(offset int64) string {
	const lines = 120 // An invalid flag prints the list of all flags.
	all := bytes.Split(bytes.TrimSpace(f.readLogFromOffset(offset)), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// logContains reports whether the log has a text at or after offset.
func (f dataDir) logContains(offset int64, text string) bool {
	return bytes.Contains(f.readLogFromOffset(offset), []byte(text))
}

// readLogFromOffset returns the log from offset on, or nothing if it cannot be read.
func (f dataDir) readLogFromOffset(offset int64) []byte {
	file, err := os.Open(f.logPath())
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.NewSectionReader(file, offset, 1<<30))
	if err != nil {
		return nil
	}
	return content
}
