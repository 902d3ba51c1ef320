// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const modulePath = "github.com/grapnel-dev/grapnel"

// findBinaries returns the folder that `make control-plane` builds into, or an
// error that says what to do if something is missing there.
func findBinaries() (string, error) {
	root, err := moduleRoot()
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

// moduleRoot walks up from the working directory, which for a test is its
// package, to the go.mod of the operator; nested modules are passed by.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module "+modulePath+"\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("the working directory is not below the source of module %s", modulePath)
		}
		dir = parent
	}
}
