// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// shell runs a command of the documents as somebody does who copies it, in the root of the
// clone and with kubectl in the path.
func (s *suite) shell(t *testing.T, command string) string {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.Symlink(s.plane.Kubectl(), filepath.Join(programs, "kubectl")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.plane.Kubeconfig(), "PATH="+programs+":"+os.Getenv("PATH"),
		// One that is not in bin is not built.
		"KUBECTL="+filepath.Join(programs, "kubectl"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	t.Logf("%s\n%s", command, out)
	return string(out)
}
