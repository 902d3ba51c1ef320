// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

// StartCluster starts a control plane with the CRDs of FindCRDs and those in further directories, and a stack in it.
// On an error nothing is left behind.
func StartCluster(ctx context.Context, opts Options, crdPaths ...string) (*controlplane.ControlPlane, *Stack, error) {
	crds, err := FindCRDs(ctx)
	if err != nil {
		return nil, nil, err
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{CRDPaths: append(crdPaths, crds), ControllerManager: true})
	if err != nil {
		return nil, nil, err
	}
	stack, err := Start(ctx, plane, opts)
	if err != nil {
		return nil, nil, errors.Join(err, plane.Stop())
	}
	return plane, stack, nil
}

// StopCluster stops what StartCluster started.
func StopCluster(plane *controlplane.ControlPlane, stack *Stack) error {
	return errors.Join(stack.Stop(), plane.Stop())
}
