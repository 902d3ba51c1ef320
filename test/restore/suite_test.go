// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// world is what all tests share.
var world struct {
	env.Env
	gates *gatekeeper
}

// site is an operator with what these stories do with it.
type site struct{ *env.Namespace }

func TestRestore(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Restore")
}

var _ = BeforeSuite(func() {
	Expect(world.Start(env.Options{
		// Many Restores may run at a time, so that those that are held do not block others.
		SharedArgs: []string{"--max-concurrent-restores=64", "--max-concurrent-backups=64"},
		Plugins:    sharedPlugins,
		BeforeTests: func(ctx context.Context) error {
			var err error
			world.gates, err = newGatekeeper(ctx, world.Client)
			return err
		},
	})).To(Succeed())
})

var _ = AfterSuite(func() {
	Expect(world.Stop()).To(Succeed())
	if world.gates != nil {
		world.gates.close()
	}
})
