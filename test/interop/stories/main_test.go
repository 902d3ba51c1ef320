// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"os"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/stage"
	"github.com/grapnel-dev/grapnel/test/interop/plugins"
)

// world is what all tests share.
var world stage.World

func TestMain(m *testing.M) {
	programs, err := plugins.Build(context.Background(), "veleroplugins-stories")
	if err != nil {
		os.Exit(stage.Fail(err))
	}
	os.Exit(world.Run(m, stage.Options{SharedArgs: []string{"--plugin-dir=" + programs}}))
}
