// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"encoding/json"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// TestServiceMonitor_Target finds the port that Prometheus reads. The Service for downloads has a port of
// the same name.
func TestServiceMonitor_Target(t *testing.T) {
	t.Parallel()
	objects := installations["alerts"].render(t)
	monitors := ofKind[unstructured.Unstructured](t, objects, "ServiceMonitor")
	if len(monitors) != 1 {
		t.Fatalf("%d ServiceMonitors", len(monitors))
	}
	selector, _, err := unstructured.NestedStringMap(monitors[0].Object, "spec", "selector", "matchLabels")
	if err != nil {
		t.Fatal(err)
	}
	endpoints, _, err := unstructured.NestedSlice(monitors[0].Object, "spec", "endpoints")
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("the endpoints are %v: %v", endpoints, err)
	}
	pod := ofKind[appsv1.Deployment](t, objects, "Deployment")[0].Spec.Template
	var ports []string
	for _, service := range ofKind[corev1.Service](t, objects, "Service") {
		if !labels.SelectorFromSet(selector).Matches(labels.Set(service.Labels)) {
			continue
		}
		if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			t.Errorf("Service %s does not select the operator's pod", service.Name)
		}
		for _, port := range service.Spec.Ports {
			if port.Name == endpoints[0].(map[string]any)["port"] {
				ports = append(ports, port.TargetPort.String())
			}
		}
	}
	if !slices.Equal(ports, []string{"metrics"}) {
		t.Errorf("Prometheus reads the ports %q, want only metrics", ports)
	}
}

// TestMonitoring_Dashboard reads the dashboard as the sidecar of Grafana does.
func TestMonitoring_Dashboard(t *testing.T) {
	t.Parallel()
	dashboards := 0
	for _, config := range ofKind[corev1.ConfigMap](t, installations["alerts"].render(t), "ConfigMap") {
		if config.Labels["grafana_dashboard"] != "1" {
			continue
		}
		for name, content := range config.Data {
			dashboards++
			if !json.Valid([]byte(content)) {
				t.Errorf("%s in ConfigMap %s is not JSON", name, config.Name)
			}
		}
	}
	if dashboards != 1 {
		t.Errorf("Grafana finds %d dashboards", dashboards)
	}
}
