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
var world stage.Env

func TestMain(m *testing.M) {
	programs, err := plugins.Build(context.Background(), "veleroplugins-stories")
	if err != nil {
		os.Exit(stage.ReportSetupError(err))
	}
	os.Exit(world.RunTests(m, stage.Options{SharedArgs: []string{"--plugin-dir=" + programs}}))
}
