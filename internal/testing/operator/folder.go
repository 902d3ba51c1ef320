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

// folder is what the operator keeps on disk.
type folder string

func (f folder) plugins() string { return filepath.Join(string(f), "plugins") }
func (f folder) store() string   { return filepath.Join(string(f), "store") }
func (f folder) scratch() string { return filepath.Join(string(f), "scratch") }
func (f folder) log() string     { return filepath.Join(string(f), "operator.log") }

// prepare makes the folder, or brings the plugins of an existing one up to date.
func (f folder) prepare(programs Programs) error {
	for _, dir := range []string{f.plugins(), f.store(), f.scratch()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a folder of the operator: %w", err)
		}
	}
	for name, source := range map[string]string{"example": programs.ExamplePlugin, "fault": programs.FaultPlugin} {
		if source == "" {
			continue
		}
		if err := install(source, filepath.Join(f.plugins(), name)); err != nil {
			return fmt.Errorf("installing the plugin %s: %w", name, err)
		}
	}
	return nil
}

// install makes target the same program as source. Where both are in one file
// system they share one file; program.Build never writes to it again.
func install(source, target string) error {
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

// lastLines returns the last lines of the log that begin at or after offset, or
// nothing if it cannot be read.
func (f folder) lastLines(offset int64) string {
	const lines = 60 // A wrong flag is answered with the list of all flags.
	all := bytes.Split(bytes.TrimSpace(f.logFrom(offset)), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// logged reports whether the log has a text at or after offset.
func (f folder) logged(offset int64, text string) bool {
	return bytes.Contains(f.logFrom(offset), []byte(text))
}

// logFrom returns the log from offset on, or nothing if it cannot be read.
func (f folder) logFrom(offset int64) []byte {
	file, err := os.Open(f.log())
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
