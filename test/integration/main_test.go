// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// patience is how long a test waits for what takes milliseconds on an idle machine.
const patience = time.Minute

// world is what all tests share.
var world struct {
	plane    *controlplane.ControlPlane
	client   client.WithWatch
	programs operator.Programs
	// dir holds what the operators keep, and the call logs of the plugins.
	dir     string
	watched *chronicle

	// shared is the operator of most tests; see sharedSite.
	sharedOnce sync.Once
	shared     *site
	sharedErr  error
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	flag.Parse()
	// Tests wait much more than they work.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if world.dir, err = os.MkdirTemp("", "grapnel-integration-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(world.dir)) }()
	building := make(chan error, 1)
	go func() {
		var err error
		world.programs, err = operator.Build(ctx)
		building <- err
	}()
	world.plane, err = controlplane.Start(ctx, controlplane.Options{
		Dir:      filepath.Join(world.dir, "plane"),
		CRDPaths: []string{"../../config/crd/bases", "testdata"}, ControllerManager: true,
	})
	if err = errors.Join(err, <-building); err != nil {
		return 1, err
	}
	defer func() {
		cancel() // The API server waits for those that watch it.
		err = errors.Join(err, world.plane.Stop())
	}()
	if err := prepare(ctx); err != nil {
		return 1, err
	}
	defer func() {
		if world.shared != nil {
			err = errors.Join(err, world.shared.op.Stop())
		}
	}()
	code = m.Run()
	return code, checkLogs()
}

// checkLogs checks that no operator logged a secret.
func checkLogs() error {
	logs, err := filepath.Glob(filepath.Join(world.dir, "*", "operator.log"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		for _, secret := range secrets() {
			for line := range bytes.Lines(content) {
				if bytes.Contains(line, []byte(secret)) {
					return fmt.Errorf("an operator logged the secret %q: %s", secret, line)
				}
			}
		}
	}
	return nil
}

// prepare connects to the API server and begins to record.
func prepare(ctx context.Context) error {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	if world.client, err = client.NewWithWatch(world.plane.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	world.watched = newChronicle()
	return world.watched.record(ctx, world.client,
		&v1alpha1.BackupList{}, &v1alpha1.HookRunList{}, &v1alpha1.PluginList{},
		&v1alpha1.BackupStorageLocationList{}, &eventsv1.EventList{})
}
