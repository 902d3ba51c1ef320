// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// patience is how long a test waits for what takes milliseconds on an idle machine.
const patience = time.Minute

// world is what all tests share.
var world struct {
	env.Env
	watched *watchRecorder
}

// site is an operator with what these stories do with it.
type site struct{ *env.Namespace }

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration")
}

var _ = BeforeSuite(func() {
	Expect(world.Start(env.Options{
		CRDPaths: []string{"testdata", "../exampleplugin/config/datamoves.yaml"}, ControllerManager: true,
		// Many Backups may run at a time, so that those that are held do not block others.
		SharedArgs: []string{"--max-concurrent-backups=64"},
		Secrets:    secrets(),
		Plugins:    sharedPlugins,
		BeforeTests: func(ctx context.Context) error {
			world.watched = newWatchRecorder()
			return world.watched.record(ctx, world.Client,
				&v1alpha1.BackupList{}, &v1alpha1.RestoreList{}, &v1alpha1.HookRunList{}, &v1alpha1.AsyncOperationList{}, &v1alpha1.DeletionRunList{},
				&v1alpha1.PluginList{}, &v1alpha1.BackupStorageLocationList{}, &eventsv1.EventList{})
		},
	})).To(Succeed())
})

var _ = AfterSuite(func() { Expect(world.Stop()).To(Succeed()) })
