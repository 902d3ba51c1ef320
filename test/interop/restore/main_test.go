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
	"testing"

	"github.com/go-logr/logr"
	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// world is what the tests share.
var world struct {
	// dir holds what all programs keep.
	dir    string
	plane  *controlplane.ControlPlane
	client client.Client
	bucket *s3server.Server
	velero veleroPrograms
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	flag.Parse()
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
	root, err := program.Root()
	if err != nil {
		return 1, err
	}
	if world.dir, err = os.MkdirTemp("", "grapnel-interop-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(world.dir)) }()
	if world.velero, err = buildVelero(ctx, root); err != nil {
		return 1, err
	}
	programs, err := operator.Build(ctx)
	if err != nil {
		return 1, err
	}
	if world.bucket, err = s3server.Run(ctx, s3server.Options{}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, world.bucket.Close()) }()
	// Without a controller manager a namespace never goes away.
	world.plane, err = controlplane.Start(ctx, controlplane.Options{
		Dir: filepath.Join(world.dir, "plane"), ControllerManager: true,
		CRDPaths: append(world.velero.crds, filepath.Join(root, "config", "crd", "bases")),
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, world.plane.Stop()) }()
	if err := connect(); err != nil {
		return 1, err
	}
	if err := errors.Join(prepareGrapnel(ctx), prepareVelero(ctx)); err != nil {
		return 1, err
	}
	op, err := operator.Start(ctx, operator.Options{
		// No plugin, as no test asks for an action.
		Programs:   operator.Programs{Operator: programs.Operator},
		Kubeconfig: world.plane.Kubeconfig(), Dir: filepath.Join(world.dir, "grapnel"),
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, op.Stop()) }()
	return m.Run(), nil
}

func connect() error {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), velerov1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	world.client, err = client.New(world.plane.Config(), client.Options{Scheme: scheme})
	return err
}
