// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"

	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// fieldManager is the field manager of the writes of a restore.
const fieldManager = "grapnel-restore"

// The embedded types have other names here, so that their fields are not exported.
type (
	reader = rawclient.Lister
	writer = rawclient.Writer
)

// apiCluster is the Cluster of an API server.
type apiCluster struct {
	*reader
	*writer
	discovery *clientdiscovery.DiscoveryClient
}

var _ Cluster = (*apiCluster)(nil)

// NewCluster returns the Cluster of the API server of cfg. It opens no connection.
func NewCluster(cfg *rest.Config, reading rawclient.ListOptions, writing rawclient.WriteOptions) (Cluster, error) {
	r, err := rawclient.NewLister(cfg, reading)
	if err != nil {
		return nil, err
	}
	if writing.FieldManager == "" {
		writing.FieldManager = fieldManager
	}
	w, err := rawclient.NewWriter(cfg, writing)
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(cfg)
	own.QPS = -1 // a few requests per run, not worth waiting for
	disc, err := clientdiscovery.NewDiscoveryClientForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("creating a discovery client: %w", err)
	}
	return &apiCluster{reader: r, writer: w, discovery: disc}, nil
}

// Discover implements Cluster.
func (c *apiCluster) Discover(ctx context.Context) (*discovery.Resources, error) {
	return discovery.Discover(ctx, c.discovery)
}
