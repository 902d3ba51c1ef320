// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"os"
	"path/filepath"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// TestManifests_Schema reads the objects with the types of the Prometheus Operator, which reject
// unknown fields here.
func TestManifests_Schema(t *testing.T) {
	t.Parallel()
	monitor, rule := &monitoringv1.ServiceMonitor{}, &monitoringv1.PrometheusRule{}
	for file, object := range map[string]any{"servicemonitor.yaml": monitor, "prometheusrule.yaml": rule} {
		content, err := os.ReadFile(filepath.Join(component, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(content, object); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, object := range []struct{ got, want string }{
		{monitor.APIVersion + " " + monitor.Kind, "monitoring.coreos.com/v1 ServiceMonitor"},
		{rule.APIVersion + " " + rule.Kind, "monitoring.coreos.com/v1 PrometheusRule"},
	} {
		if object.got != object.want {
			t.Errorf("it is a %s, want a %s", object.got, object.want)
		}
	}
	// The recordings are replayed with the labels of the metrics.
	if len(monitor.Spec.Endpoints) != 1 || !monitor.Spec.Endpoints[0].HonorLabels {
		t.Error("Prometheus renames the label namespace of metrics")
	}
}
