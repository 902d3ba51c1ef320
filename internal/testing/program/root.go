// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const modulePath = "github.com/grapnel-dev/grapnel"

// ModuleRoot returns the directory of the operator's module. It walks up from the working
// directory, which for a test is its package; nested modules are skipped.
func ModuleRoot() (string, error) {
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
