// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// findBinaryDir returns the output directory of `make control-plane`, or an error that says
// what to do if a program is missing there.
func findBinaryDir() (string, error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "controlplane")
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"} {
		_, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("the control plane is not built (no %s in %s): run `make control-plane`", name, dir)
		}
		if err != nil {
			return "", fmt.Errorf("looking for %s: %w", name, err)
		}
	}
	return dir, nil
}
