// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Sys is where the kernel's settings are.
const Sys = "/proc/sys"

// Settings are values of the kernel's settings by their names, which are paths below
// [Sys] as in "net/ipv4/ip_forward".
type Settings map[string]string

// ReadSettings reads settings below root, which is [Sys] outside of tests. What this
// kernel does not have is left out.
func ReadSettings(root string, names []string) (Settings, error) {
	settings := Settings{}
	for _, name := range names {
		value, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading a setting of the kernel: %w", err)
		}
		settings[name] = strings.TrimSpace(string(value))
	}
	return settings, nil
}

// Apply writes the values that differ. It continues behind those that fail.
func (s Settings) Apply(root string) error {
	var errs []error
	for name, value := range s {
		path := filepath.Join(root, name)
		now, err := os.ReadFile(path)
		if err == nil && strings.TrimSpace(string(now)) == value {
			continue
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("setting %s to %s: %w", name, value, err))
		}
	}
	return errors.Join(errs...)
}
