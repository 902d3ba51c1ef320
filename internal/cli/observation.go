// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/diagnosis"
	"github.com/grapnel-dev/grapnel/internal/download"
	"github.com/grapnel-dev/grapnel/internal/lease"
)

// observeInstallation reads everything that is needed for a diagnosis, as far as the user may read it. The error is
// for an API server that cannot be reached, and for a user who may not read Grapnel's objects.
func (a *app) observeInstallation(ctx context.Context, c *connection) (*diagnosis.Snapshot, error) {
	s := &diagnosis.Snapshot{Namespace: c.namespace, ClientVersion: a.version, LocalTime: time.Now()}
	var err error
	if s.Served, s.Failed, err = c.discoverResources(ctx); err != nil {
		return nil, err
	}
	s.ServerTime.Value, s.ClockSkew, s.ServerTime.Err = c.fetchServerTime(ctx)
	namespaced, operator := client.InNamespace(c.namespace), client.MatchingLabels(diagnosis.OperatorLabels())
	s.Deployments.Err = c.List(ctx, &s.Deployments.Value, namespaced, operator)
	s.Lease.Err = c.Get(ctx, c.objectKey(lease.Name), &s.Lease.Value)
	s.Downloads.Err = c.Get(ctx, c.objectKey(download.ServiceName), &s.Downloads.Value)
	s.Policies.Err = c.List(ctx, &s.Policies.Value)
	s.Bindings.Err = c.List(ctx, &s.Bindings.Value)
	s.Locations.Err = c.List(ctx, &s.Locations.Value, namespaced)
	s.Plugins.Err = c.List(ctx, &s.Plugins.Value)
	s.Schedules.Err = c.List(ctx, &s.Schedules.Value, namespaced)
	s.Backups.Err = c.List(ctx, &s.Backups.Value, namespaced)
	s.Restores.Err = c.List(ctx, &s.Restores.Value, namespaced)
	s.DeletionRuns.Err = c.List(ctx, &s.DeletionRuns.Value, namespaced)
	s.HookRuns.Err = c.List(ctx, &s.HookRuns.Value, namespaced)
	s.AsyncOperations.Err = c.List(ctx, &s.AsyncOperations.Value, namespaced)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s, checkReadable(s)
}

// discoverResources returns what the API server serves, and the group versions that it cannot describe.
func (c *connection) discoverResources(ctx context.Context) ([]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	d, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, nil, err
	}
	_, served, err := d.ServerGroupsAndResourcesWithContext(ctx)
	if failed, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		return served, failed.Groups, nil
	}
	return served, nil, err
}

// fetchServerTime returns the clock of the API server, from the header of an answer, and how far the clock of this
// machine is ahead of it, with a precision of a second.
func (c *connection) fetchServerTime(ctx context.Context) (server time.Time, skew time.Duration, err error) {
	httpClient, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return time.Time{}, 0, err
	}
	address, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return time.Time{}, 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return time.Time{}, 0, err
	}
	sent := time.Now()
	response, err := httpClient.Do(request)
	if err != nil {
		return time.Time{}, 0, err
	}
	received := time.Now()
	if err := response.Body.Close(); err != nil {
		return time.Time{}, 0, err
	}
	server, err = http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, 0, fmt.Errorf("the API server does not tell its time: %w", err)
	}
	return server, sent.Add(received.Sub(sent) / 2).Sub(server), nil
}
