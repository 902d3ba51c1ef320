// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"os"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/test/interop/plugins"
)

// world is what all tests share.
var world env.Env

func TestMain(m *testing.M) {
	programs, err := plugins.Build(context.Background(), "veleroplugins-stories")
	if err != nil {
		os.Exit(env.ReportSetupError(err))
	}
	os.Exit(world.RunTests(m, env.Options{SharedArgs: []string{"--plugin-dir=" + programs}}))
}
