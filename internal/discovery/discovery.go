// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/grapnel-dev/grapnel/internal/panics"
)

// Client is the part of client-go's discovery client that Discover needs.
// *discovery.DiscoveryClient implements it and, with it,
// discovery.AggregatedDiscoveryInterfaceWithContext, which Discover prefers:
// two requests instead of one per API group and version.
type Client interface {
	ServerGroupsWithContext(ctx context.Context) (*metav1.APIGroupList, error)
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

type aggregatedClient interface {
	GroupsAndMaybeResourcesWithContext(ctx context.Context) (
		*metav1.APIGroupList,
		map[schema.GroupVersion]*metav1.APIResourceList,
		map[schema.GroupVersion]error,
		error,
	)
}

var _ aggregatedClient = discovery.AggregatedDiscoveryInterfaceWithContext(nil)

// maxConcurrentRequests bounds the requests to a server without aggregated
// discovery.
const maxConcurrentRequests = 8

// serverResources is the answer of a server: its groups in order of priority, and the
// resources of each version of them.
type serverResources struct {
	groups    []metav1.APIGroup
	resources map[schema.GroupVersion]*metav1.APIResourceList
	failed    map[schema.GroupVersion]error
}

// Discover requests everything that the cluster serves. An API group that does not answer
// is reported in Resources.Failed. The error is for a cluster that does not answer at all.
func Discover(ctx context.Context, client Client) (*Resources, error) {
	s, err := fetchServerResources(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("discovering API resources: %w", err)
	}
	return newResources(s), nil
}

func fetchServerResources(ctx context.Context, client Client) (*serverResources, error) {
	s := &serverResources{failed: map[schema.GroupVersion]error{}}
	if aggregated, ok := client.(aggregatedClient); ok {
		groups, resources, failed, err := aggregated.GroupsAndMaybeResourcesWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("discovering API groups: %w", err)
		}
		s.groups, s.resources = groups.Groups, resources
		maps.Copy(s.failed, failed)
	} else {
		groups, err := client.ServerGroupsWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("discovering API groups: %w", err)
		}
		s.groups = groups.Groups
	}
	if s.resources == nil {
		s.fetchEachGroupVersion(ctx, client)
	}
	return s, nil
}

// fetchEachGroupVersion requests every version of every group separately, for servers
// without aggregated discovery.
func (s *serverResources) fetchEachGroupVersion(ctx context.Context, client Client) {
	s.resources = map[schema.GroupVersion]*metav1.APIResourceList{}
	var (
		mu       sync.Mutex
		wg       sync.WaitGroup
		notFound = map[schema.GroupVersion]error{}
		slots    = make(chan struct{}, maxConcurrentRequests)
	)
	for _, gv := range groupVersions(s.groups) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			list, err := fetchGroupVersion(ctx, client, gv)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case apierrors.IsNotFound(err):
				notFound[gv] = err
			case err != nil:
				s.failed[gv] = err
			case list != nil:
				s.resources[gv] = list
			}
		})
	}
	wg.Wait()
	s.recordUnavailableVersions(ctx, client, notFound)
}

// fetchGroupVersion requests the resources of one version.
func fetchGroupVersion(ctx context.Context, client Client, gv schema.GroupVersion) (list *metav1.APIResourceList, err error) {
	defer panics.Recover(&err)
	return client.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
}

// recordUnavailableVersions lists the groups again. A version that is no longer listed was
// removed, and there is nothing to archive. Any other version failed: an extension API
// server answers 404 while it is being replaced.
func (s *serverResources) recordUnavailableVersions(ctx context.Context, client Client, notFound map[schema.GroupVersion]error) {
	if len(notFound) == 0 {
		return
	}
	var listed []schema.GroupVersion
	groups, err := client.ServerGroupsWithContext(ctx)
	if err == nil {
		listed = groupVersions(groups.Groups)
	}
	for gv, cause := range notFound {
		if err != nil || slices.Contains(listed, gv) {
			s.failed[gv] = fmt.Errorf("it is listed, but discovery failed: %w", cause)
		}
	}
}

func groupVersions(groups []metav1.APIGroup) []schema.GroupVersion {
	var gvs []schema.GroupVersion
	for _, group := range groups {
		for _, version := range group.Versions {
			gvs = append(gvs, schema.GroupVersion{Group: group.Name, Version: version.Version})
		}
	}
	return gvs
}

// canArchive reports whether a resource can be read from one cluster and created in
// another. Velero requires the same verbs: a type without create is computed
// (ComponentStatus), one without list or get cannot be read (TokenReview), one without
// delete cannot be replaced.
func canArchive(r metav1.APIResource) bool {
	if isSubresource(r) {
		return false
	}
	have := map[string]bool{}
	for _, verb := range r.Verbs {
		have[verb] = true
	}
	return have["list"] && have["create"] && have["get"] && have["delete"]
}

func isSubresource(r metav1.APIResource) bool {
	return strings.Contains(r.Name, "/")
}
