// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/stage"
)

// patience is how long a test waits for what takes milliseconds on an idle machine.
const patience = time.Minute

// world is what all tests share.
var world struct {
	stage.World
	watched *chronicle
}

func TestMain(m *testing.M) {
	os.Exit(world.Run(m, stage.Options{
		CRDs: []string{"testdata"}, ControllerManager: true,
		SharedArgs: []string{"--max-concurrent-backups=64"},
		Secrets:    secrets(),
		Prepare: func(ctx context.Context) error {
			world.watched = newChronicle()
			err := world.watched.record(ctx, world.Client,
				&v1alpha1.BackupList{}, &v1alpha1.HookRunList{}, &v1alpha1.PluginList{},
				&v1alpha1.BackupStorageLocationList{}, &eventsv1.EventList{})
			return errors.Join(err, world.InstallPlugins(ctx, sharedPlugins()))
		},
	}))
}
