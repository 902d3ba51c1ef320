// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// Releases returns the releases of Velero that the plugin is built with. Each is the
// name of a directory here, and of a program that Build makes.
func Releases() []string { return []string{"v1.14", "v1.18"} }

// Build compiles the plugins into a directory below bin/test, which it returns. Every test
// package needs a directory of its own, since several may build at a time.
//
// The settings are those that "go vet" and the build of Velero's server for other tests
// have, so that what they have in common is compiled once: it is nearly everything.
func Build(ctx context.Context, directory string) (string, error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return "", fmt.Errorf("looking for the source of the plugins: %w", err)
	}
	dir := filepath.Join(root, "bin", "test", directory)
	for _, release := range Releases() {
		cmd := exec.CommandContext(ctx, "go", "build", "-p=2", "-buildvcs=false", "-ldflags=-s -w",
			"-o", filepath.Join(dir, release), ".")
		cmd.Dir = filepath.Join(root, "test", "interop", "plugins", release)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("building the plugin for Velero %s: %w\n%s", release, err, bytes.TrimSpace(out))
		}
	}
	return dir, nil
}
