// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"os"
	"testing"

	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// world is what the tests share.
var world struct {
	env.Env
	bucket *s3server.Server
	velero veleroPrograms
}

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		code = max(code, env.ReportSetupError(err))
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if world.velero, err = buildVelero(ctx); err != nil {
		return 1, err
	}
	if world.bucket, err = s3server.StartWithContext(ctx, s3server.Options{}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, world.bucket.Close()) }()
	return world.RunTests(m, env.Options{
		CRDPaths: world.velero.crds, AddToScheme: []func(*runtime.Scheme) error{velerov1.AddToScheme}, ControllerManager: true,
		NewDefaultLocation: bucketOf, Secrets: []string{world.bucket.SecretKey},
		BeforeTests: func(ctx context.Context) error { return errors.Join(prepareGrapnel(ctx), prepareVelero(ctx)) },
	}), nil
}
