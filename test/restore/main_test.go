// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// world is what all tests share.
var world struct {
	plane    *controlplane.ControlPlane
	client   client.Client
	programs operator.Programs
	// dir holds what the operators keep, and the call logs of the plugins.
	dir   string
	gates *gatekeeper

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
	code, err := runTests(m)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if world.dir, err = os.MkdirTemp("", "grapnel-restore-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(world.dir)) }()
	building := make(chan error, 1)
	go func() {
		var err error
		world.programs, err = operator.Build(ctx)
		building <- err
	}()
	// Without a controller manager a namespace has nothing that a test did not put
	// there.
	world.plane, err = controlplane.Start(ctx, controlplane.Options{
		Dir: filepath.Join(world.dir, "plane"), CRDPaths: []string{"../../config/crd/bases"},
	})
	if err = errors.Join(err, <-building); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, world.plane.Stop()) }()
	if err := prepare(ctx); err != nil {
		return 1, err
	}
	defer world.gates.close()
	defer func() {
		if world.shared != nil {
			err = errors.Join(err, world.shared.op.Stop())
		}
	}()
	return m.Run(), nil
}

// prepare connects to the API server and puts the gates up.
func prepare(ctx context.Context) error {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	if world.client, err = client.New(world.plane.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	world.gates, err = newGatekeeper(ctx, world.client)
	return errors.Join(err, installPlugins(ctx))
}
