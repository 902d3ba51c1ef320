// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor/job"
)

// TestNetworkPolicies_Selectors compares the policies with the labels and ports of what
// they are for: nothing else says that a label is written differently.
func TestNetworkPolicies_Selectors(t *testing.T) {
	t.Parallel()
	objects := installations["default"].render(t)
	operatorPod := ofKind[appsv1.Deployment](t, objects, "Deployment")[0].Spec.Template
	pods := map[string]labels.Set{
		"operator": operatorPod.Labels,
		"Job":      {job.LabelManagedBy: job.ManagedBy, job.LabelPlugin: "dump-orders"},
		"stranger": {"app": "something else"},
	}
	want := map[string]string{
		"grapnel-default-deny": "operator Job stranger", "grapnel-controller-manager": "operator", "grapnel-jobs": "Job",
	}
	for _, policy := range ofKind[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy") {
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		for pod, set := range pods {
			if selector.Matches(set) != strings.Contains(want[policy.Name], pod) {
				t.Errorf("%s: it selects the pod of the %s: %v", policy.Name, pod, selector.Matches(set))
			}
		}
		if policy.Name == "grapnel-default-deny" && (len(policy.Spec.PolicyTypes) != 2 || len(policy.Spec.Ingress)+len(policy.Spec.Egress) > 0) {
			t.Errorf("%s lets something through: %+v", policy.Name, policy.Spec)
		}
		delete(want, policy.Name)
		if policy.Name == "grapnel-controller-manager" {
			checkIngress(t, policy.Spec.Ingress, operatorPod.Spec.Containers[0].Ports)
		}
	}
	if len(want) > 0 {
		t.Errorf("these policies are missing: %v", want)
	}
}

// checkIngress checks that only selected peers reach the metrics, that the API server, which has no known
// address, reaches the downloads, and that no other port is open.
func checkIngress(t *testing.T, rules []networkingv1.NetworkPolicyIngressRule, ports []corev1.ContainerPort) {
	t.Helper()
	open := map[int32]bool{} // by port, whether only selected peers reach it
	for _, rule := range rules {
		for _, port := range rule.Ports {
			open[port.Port.IntVal] = len(rule.From) > 0
		}
	}
	want := map[int32]bool{}
	for _, port := range ports {
		switch port.Name {
		case "metrics":
			want[port.ContainerPort] = true
		case "downloads":
			want[port.ContainerPort] = false
		}
	}
	if len(want) != 2 || !maps.Equal(open, want) {
		t.Errorf("the open ports are %v, want %v", open, want)
	}
}
