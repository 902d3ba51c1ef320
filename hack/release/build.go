// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// platform is one that Go compiles for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

func parsePlatform(text string) (platform, error) {
	system, arch, found := strings.Cut(text, "/")
	if !found || system == "" || arch == "" || strings.Contains(arch, "/") {
		return platform{}, fmt.Errorf("%q is not a platform such as linux/amd64", text)
	}
	return platform{os: system, arch: arch}, nil
}

// program is a program for one platform.
type program struct {
	platform

	name string
	// dir is where its main package is, below the root of the repository.
	dir string
}

var (
	operator    = program{name: "manager", dir: "."}
	csiPlugin   = program{name: "csi", dir: "plugins/csi"}
	commandLine = program{name: "kubectl-grapnel", dir: "cmd/kubectl-grapnel"}
)

func (p program) on(target platform) program {
	p.platform = target
	if target.os == "windows" {
		p.name += ".exe"
	}
	return p
}

// buildProgram compiles a program. Neither the machine nor the directory, the user's settings of Go or the
// state of the repository get into it: nothing but the source, the version of Go, and its own.
func buildProgram(ctx context.Context, root string, p program, version, target string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+version, "-o", target, ".")
	cmd.Dir = filepath.Join(root, p.dir)
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s: %w\n%s", p.name, p.platform, err, bytes.TrimSpace(out))
	}
	return nil
}

// buildPrograms compiles programs into a directory, each to the path that pathOf returns.
func (b builder) buildPrograms(ctx context.Context, version, dir string, programs ...program) error {
	for _, p := range programs {
		b.logf("Building %s for %s", p.name, p.platform)
		target := p.pathIn(dir)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("creating a directory for programs: %w", err)
		}
		if err := b.build(ctx, b.root, p, version, target); err != nil {
			return err
		}
	}
	return nil
}

func (p program) pathIn(dir string) string {
	return filepath.Join(dir, p.os, p.arch, p.name)
}
