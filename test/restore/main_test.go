// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"os"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// world is what all tests share.
var world struct {
	env.Env
	gates *gatekeeper
}

// site is an operator with what these stories do with it.
type site struct{ *env.Namespace }

func TestMain(m *testing.M) {
	code := world.RunTests(m, env.Options{
		// Many Restores may run at a time, so that those that are held do not block others.
		SharedArgs: []string{"--max-concurrent-restores=64", "--max-concurrent-backups=64"},
		Plugins:    sharedPlugins,
		BeforeTests: func(ctx context.Context) error {
			var err error
			world.gates, err = newGatekeeper(ctx, world.Client)
			return err
		},
	})
	if world.gates != nil {
		world.gates.close()
	}
	os.Exit(code)
}
