// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/stage"
)

// world is what all tests share.
var world struct {
	stage.World
	gates *gatekeeper
}

func TestMain(m *testing.M) {
	code := world.Run(m, stage.Options{
		SharedArgs: []string{"--max-concurrent-restores=64", "--max-concurrent-backups=64"},
		Prepare: func(ctx context.Context) error {
			var err error
			world.gates, err = newGatekeeper(ctx, world.Client)
			return errors.Join(err, world.InstallPlugins(ctx, sharedPlugins()))
		},
	})
	if world.gates != nil {
		world.gates.close()
	}
	os.Exit(code)
}
