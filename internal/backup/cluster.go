// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// apiCluster is the Cluster of an API server.
type apiCluster struct {
	*rawclient.Lister
	discovery *clientdiscovery.DiscoveryClient
}

var _ Cluster = (*apiCluster)(nil)

// NewCluster returns the Cluster of the API server of cfg. It opens no connection.
func NewCluster(cfg *rest.Config, opts rawclient.ListOptions) (Cluster, error) {
	client, err := rawclient.NewLister(cfg, opts)
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(cfg)
	own.QPS = -1 // one or two requests per run, not worth waiting for
	disc, err := clientdiscovery.NewDiscoveryClientForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("creating a discovery client: %w", err)
	}
	return &apiCluster{Lister: client, discovery: disc}, nil
}

// Discover implements Cluster.
func (c *apiCluster) Discover(ctx context.Context) (*discovery.Resources, error) {
	return discovery.Discover(ctx, c.discovery)
}
