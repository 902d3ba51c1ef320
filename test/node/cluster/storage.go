// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/test/node/host"
)

// startStorage starts the CSI driver, its sidecars once the API server serves snapshots, and waits until
// the kubelet knows the driver.
func (p *processes) startStorage(ctx context.Context) error {
	storage := p.layout.storage()
	if err := p.start(storage[0]); err != nil {
		return err
	}
	if err := p.applyStorage(ctx); err != nil {
		return err
	}
	for _, c := range storage[1:] {
		if err := p.start(c); err != nil {
			return err
		}
	}
	return p.awaitDriver(ctx)
}

// applyStorage creates the CRDs of snapshots, and the classes of the driver.
func (p *processes) applyStorage(ctx context.Context) error {
	l := p.layout
	crds, err := csi.FindCRDs(ctx)
	if err != nil {
		return err
	}
	classes := filepath.Join(l.State, "classes.yaml")
	if err := os.WriteFile(classes, []byte(csi.Classes), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", crds},
		// No other CRDs are there yet.
		{"wait", "crds", "--all", "--for=condition=Established", "--timeout=60s"},
		{"apply", "--server-side", "-f", classes},
	} {
		if _, err := host.Run(ctx, l.kubectl(), append([]string{"--kubeconfig=" + l.kubeconfig()}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// awaitDriver waits until pods can use volumes of the driver.
func (p *processes) awaitDriver(ctx context.Context) error {
	c, err := p.layout.client()
	if err != nil {
		return err
	}
	return p.await(ctx, "the CSI driver", []string{kubelet, csiDriver}, func(ctx context.Context) error {
		node, err := c.StorageV1().CSINodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, driver := range node.Spec.Drivers {
			if driver.Name == csi.DriverName {
				return nil
			}
		}
		return errors.New("the kubelet does not know it yet")
	})
}
