// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/panics"
)

// exploding is a client that panics where one version is read.
type exploding struct {
	Client
	version string
}

// ServerResourcesForGroupVersionWithContext implements Client.
func (e exploding) ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	if groupVersion == e.version {
		panic("boom")
	}
	return e.Client.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
}

// TestDiscover_Panic: a panic about one version is an error of it, and of no other one.
func TestDiscover_Panic(t *testing.T) {
	server := &fakeServer{groups: testGroups, legacy: true}
	r, err := Discover(t.Context(), exploding{Client: server.client(t), version: "apps/v1"})
	if err != nil {
		t.Fatalf("Discover: %v", err)
	}
	failed := r.Failed[schema.GroupVersion{Group: "apps", Version: "v1"}]
	if !errors.As(failed, new(*panics.Error)) || len(r.Failed) != 1 {
		t.Errorf("Failed: %v, want apps/v1 with the panic", r.Failed)
	}
	if _, ok := r.PreferredVersion(schema.GroupResource{Resource: "pods"}); !ok {
		t.Error("pods are missing")
	}
}
