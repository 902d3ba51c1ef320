// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"path/filepath"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// Programs are the paths of built binaries.
type Programs struct {
	// Operator is the operator, built from main.go.
	Operator string
	// ExamplePlugin and FaultPlugin are the plugins below test/. A plugin without a path is
	// not installed.
	ExamplePlugin string
	FaultPlugin   string
}

// BuildPrograms compiles the programs into bin/test/programs, which is quick if nothing has
// changed since the last time. Several test programs may build at the same time.
func BuildPrograms(ctx context.Context) (Programs, error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return Programs{}, err
	}
	dir := filepath.Join(root, "bin", "test", "programs")
	programs := Programs{
		Operator:      filepath.Join(dir, "operator"),
		ExamplePlugin: filepath.Join(dir, "exampleplugin"),
		FaultPlugin:   filepath.Join(dir, "faultplugin"),
	}
	for _, p := range []struct{ source, target string }{
		{source: root, target: programs.Operator},
		{source: filepath.Join(root, "test", "exampleplugin"), target: programs.ExamplePlugin},
		{source: filepath.Join(root, "test", "faultplugin"), target: programs.FaultPlugin},
	} {
		if err := program.Build(ctx, p.source, p.target); err != nil {
			return Programs{}, err
		}
	}
	return programs, nil
}
