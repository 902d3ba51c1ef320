// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestAPIServiceAction_Execute(t *testing.T) {
	resource := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	const metrics = `{"metadata":{"name":"v1.metrics"},"spec":{"service":{"namespace":"a","name":"metrics"},"caBundle":"Q0E="}}`
	RunCases(t, NewAPIServiceAction(), map[string]Case{
		"of a built-in group": {
			Resource: resource,
			Archived: `{"metadata":{"name":"v1.apps","labels":{"kube-aggregator.kubernetes.io/automanaged":"onstart"}}}`,
			Result:   itemaction.Result{Skip: "the API server registers it itself"},
		},
		"of a CRD": {
			Resource: resource,
			Archived: `{"metadata":{"name":"v1.example.org","labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}}}`,
			Result:   itemaction.Result{Skip: "the API server registers it itself"},
		},
		"of an aggregated API": {Resource: resource, Archived: metrics, Want: metrics},
		"in a mapped namespace": {
			Resource: resource, Archived: metrics,
			Restore: itemaction.RestoreContext{NamespaceMapping: map[string]string{"a": "b"}},
			Want:    `{"metadata":{"name":"v1.metrics"},"spec":{"service":{"namespace":"b","name":"metrics"},"caBundle":"Q0E="}}`,
			Result: itemaction.Result{Warnings: []string{
				"Service a/metrics is now called as b/metrics: its certificate must be valid for metrics.b.svc",
			}},
		},
	})
}
