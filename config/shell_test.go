// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// shell runs a command of the documents as a user does who copies it, in the root of the
// clone and with kubectl in the path.
func (s *suite) shell(t *testing.T, command string) string {
	t.Helper()
	out, err := s.command(t, command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	t.Logf("%s\n%s", command, out)
	return string(out)
}

// command returns what shell runs.
func (s *suite) command(t *testing.T, command string) *exec.Cmd {
	t.Helper()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.Symlink(s.plane.KubectlPath(), filepath.Join(programs, "kubectl")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cmp.Or(s.administrator, s.plane.KubeconfigPath()), "PATH="+programs+":"+os.Getenv("PATH"))
	return cmd
}

// TestMakefile_Kubectl checks which kubectl make would run, for a user who has kubectl
// and for one who has not: building one takes minutes.
func TestMakefile_Kubectl(t *testing.T) {
	t.Parallel()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(root, "bin", "controlplane", "kubectl")
	for _, target := range []string{"install", "uninstall", "deploy", "undeploy"} {
		programs := t.TempDir()
		for _, name := range []string{"make", "bash", "sed"} {
			path, err := exec.LookPath(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(programs, name)); err != nil {
				t.Fatal(err)
			}
		}
		if plan := planOfMake(t, root, programs, target); !strings.Contains(plan, "\n"+built+" ") && !strings.HasPrefix(plan, built+" ") {
			t.Errorf("make %s without kubectl does not use the one that it builds:\n%s", target, plan)
		}
		installed := filepath.Join(programs, "kubectl")
		if err := os.WriteFile(installed, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		plan := planOfMake(t, root, programs, target)
		if !strings.HasPrefix(plan, installed+" ") || strings.Contains(plan, "controlplane") || strings.Contains(plan, "tools") {
			t.Errorf("make %s does not just use the kubectl that is installed:\n%s", target, plan)
		}
	}
}

// TestMakefile_Installer compares the one file with the overlay that it is made of.
func TestMakefile_Installer(t *testing.T) {
	t.Parallel()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	const image = "registry.example.com/grapnel:v0.1.0"
	dist := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "make", "build-installer", "KUBECTL="+filepath.Join(root, "bin", "controlplane", "kubectl"),
		"DIST="+dist, "IMG="+image, "OVERLAY=config/overlays/s3")
	cmd.Dir = root
	if _, err := output(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
	installer, err := os.ReadFile(filepath.Join(dist, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(installations["s3"].manifests(t), "image: ghcr.io/grapnel-dev/grapnel:latest", "image: "+image)
	if string(installer) != want || !strings.Contains(want, image) {
		t.Error("install.yaml is not what the overlay has with another image")
	}
}

// planOfMake returns the commands that make would run with these programs.
func planOfMake(t *testing.T, root, programs, target string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "make"), "-n", target)
	cmd.Dir, cmd.Env = root, []string{"PATH=" + programs}
	plan, err := output(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
