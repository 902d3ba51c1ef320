// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// BinaryDirVariable names a directory with the programs of another version. It has no effect on
// other packages that use envtest, nor do their variables on this one.
const BinaryDirVariable = "GRAPNEL_CONTROL_PLANE"

// FindBinaryDir returns the output directory of `make control-plane`, unless the environment names
// another, or an error that says what to do if a program is missing there.
func FindBinaryDir() (string, error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return "", err
	}
	dir := cmp.Or(os.Getenv(BinaryDirVariable), filepath.Join(root, "bin", "controlplane"))
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"} {
		_, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			target := strings.Replace(filepath.Base(dir), "controlplane", "control-plane", 1)
			return "", fmt.Errorf("the control plane is not built (no %s in %s): run `make %s`", name, dir, target)
		}
		if err != nil {
			return "", fmt.Errorf("looking for %s: %w", name, err)
		}
	}
	return dir, nil
}
