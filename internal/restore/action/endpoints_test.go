// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestEndpointsAction_Execute(t *testing.T) {
	skipped := itemaction.Result{Skip: "a controller creates it for its Service"}
	const byHand = `{"metadata":{"name":"db","namespace":"a","labels":{"kubernetes.io/service-name":"db",
		"endpointslice.kubernetes.io/managed-by":"staff"}},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}]}`
	const ownEndpoints = `{"metadata":{"name":"db","namespace":"a"},"subsets":[{"addresses":[{"ip":"10.0.0.1"}]}]}`
	RunCases(t, NewEndpointsAction(), map[string]Case{
		"slice of a Service with a selector": {
			Resource: endpointSlices.WithVersion("v1"),
			Archived: `{"metadata":{"name":"web-x","labels":{"endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io"}}}`,
			Result:   skipped,
		},
		"slice mirrored from Endpoints": {
			Resource: endpointSlices.WithVersion("v1"),
			Archived: `{"metadata":{"name":"db-x","labels":{"endpointslice.kubernetes.io/managed-by":"endpointslicemirroring-controller.k8s.io"}}}`,
			Result:   skipped,
		},
		"slice made by hand": {Resource: endpointSlices.WithVersion("v1"), Archived: byHand, Want: byHand},
		"Endpoints of a Service with a selector": {
			Resource: endpoints.WithVersion("v1"),
			Archived: `{"metadata":{"name":"web","labels":{"endpoints.kubernetes.io/managed-by":"endpoint-controller"}}}`,
			Result:   skipped,
		},
		"Endpoints of a controller before 1.33": {
			Resource: endpoints.WithVersion("v1"),
			Archived: `{"metadata":{"name":"web","annotations":{"endpoints.kubernetes.io/last-change-trigger-time":"2026-01-01T00:00:00Z"}}}`,
			Result:   skipped,
		},
		"Endpoints made by hand": {Resource: endpoints.WithVersion("v1"), Archived: ownEndpoints, Want: ownEndpoints},
	})
}
