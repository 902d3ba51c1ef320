// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func pod(namespace, name, address string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Status:     corev1.PodStatus{PodIP: address, Phase: corev1.PodRunning},
	}
}

// testWorld has two namespaces with two pods each, and pods without an address of their own.
func testWorld(t *testing.T, policies ...string) World {
	t.Helper()
	ended, onNode := pod("a", "x", "10.0.0.1"), pod("a", "x", "10.0.0.99")
	ended.Status.Phase, onNode.Spec.HostNetwork = corev1.PodSucceeded, true
	w := World{
		Pods: []corev1.Pod{
			pod("b", "y", "10.0.0.4"), pod("b", "x", "10.0.0.3"), pod("a", "y", "10.0.0.2"), pod("a", "x", "10.0.0.1"), pod("a", "x", ""), ended, onNode,
		},
		Namespaces: []corev1.Namespace{
			{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"is": "b"}}},
		},
	}
	for _, text := range policies {
		policy := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}
		if err := yaml.UnmarshalStrict([]byte(text), &policy.Spec); err != nil {
			t.Fatal(err)
		}
		w.Policies = append(w.Policies, policy)
	}
	return w
}

// ways returns the lines of a chain that let something through, without what is the same in
// all, and false if there is no such chain.
func ways(rules, chain string) ([]string, bool) {
	_, rest, found := strings.Cut(rules, "\tchain "+chain+" {\n")
	body, _, _ := strings.Cut(rest, "\t}\n")
	var lines []string
	for line := range strings.Lines(body) {
		if way, ok := strings.CutSuffix(strings.TrimSpace(line), "return"); ok {
			lines = append(lines, strings.TrimSpace(way))
		}
	}
	return lines, found
}

func TestRules(t *testing.T) {
	const denied = "{podSelector: {}, policyTypes: [Ingress, Egress]}"
	for name, tc := range map[string]struct {
		policies []string
		chain    string
		want     []string
		open     bool
	}{
		"no policy":             {nil, "egress-10.0.0.1", nil, true},
		"another namespace":     {[]string{denied}, "egress-10.0.0.3", nil, true},
		"another pod":           {[]string{"{podSelector: {matchLabels: {app: x}}, policyTypes: [Egress]}"}, "egress-10.0.0.2", nil, true},
		"another direction":     {[]string{"{podSelector: {}, policyTypes: [Egress]}"}, "ingress-10.0.0.1", nil, true},
		"nothing":               {[]string{denied}, "egress-10.0.0.1", nil, false},
		"nothing comes in":      {[]string{denied}, "ingress-10.0.0.1", nil, false},
		"everything":            {[]string{denied, "{podSelector: {}, egress: [{}], policyTypes: [Egress]}"}, "egress-10.0.0.1", []string{""}, false},
		"a port":                {[]string{"{egress: [{ports: [{port: 443}, {port: 53, protocol: UDP}]}], policyTypes: [Egress]}"}, "egress-10.0.0.1", []string{"tcp dport 443", "udp dport 53"}, false},
		"a range, a protocol":   {[]string{"{egress: [{ports: [{port: 1, endPort: 9}, {protocol: UDP}]}], policyTypes: [Egress]}"}, "egress-10.0.0.1", []string{"meta l4proto udp", "tcp dport 1-9"}, false},
		"pods of its namespace": {[]string{"{ingress: [{from: [{podSelector: {matchLabels: {app: 'y'}}}]}], policyTypes: [Ingress]}"}, "ingress-10.0.0.1", []string{"ip saddr { 10.0.0.2 }"}, false},
		"a namespace":           {[]string{"{egress: [{to: [{namespaceSelector: {matchLabels: {is: b}}}]}], policyTypes: [Egress]}"}, "egress-10.0.0.1", []string{"ip daddr { 10.0.0.3, 10.0.0.4 }"}, false},
		"pods of a namespace": {
			[]string{"{egress: [{to: [{namespaceSelector: {}, podSelector: {matchLabels: {app: x}}}], ports: [{port: 80}]}], policyTypes: [Egress]}"},
			"egress-10.0.0.2",
			[]string{"ip daddr { 10.0.0.1, 10.0.0.3 } tcp dport 80"},
			false,
		},
		"no matching pod": {[]string{"{egress: [{to: [{podSelector: {matchLabels: {app: z}}}], ports: [{port: 80}]}], policyTypes: [Egress]}"}, "egress-10.0.0.1", nil, false},
		"a block":         {[]string{"{egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}], policyTypes: [Egress]}"}, "egress-10.0.0.1", []string{"ip daddr 10.0.0.0/8 ip daddr != { 10.1.0.0/16 }"}, false},
		"they add up":     {[]string{"{egress: [{ports: [{port: 2}]}], policyTypes: [Egress]}", "{egress: [{ports: [{port: 1}]}], policyTypes: [Egress]}"}, "egress-10.0.0.1", []string{"tcp dport 1", "tcp dport 2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := testWorld(t, tc.policies...).Rules()
			if err != nil {
				t.Fatal(err)
			}
			got, isolated := ways(rules, tc.chain)
			if isolated == tc.open || !slices.Equal(got, tc.want) {
				t.Errorf("open: %v, ways: %q; want %v, %q\n%s", !isolated, got, tc.open, tc.want, rules)
			}
			direction, address, _ := strings.Cut(tc.chain, "-")
			if jumps := strings.Contains(rules, address+" jump "+direction+"-"+address+"\n"); jumps == tc.open {
				t.Errorf("packets of the pod are checked: %v\n%s", jumps, rules)
			}
		})
	}
}

func TestRules_Unsupported(t *testing.T) {
	for name, tc := range map[string]struct{ policy, want string }{
		"a port's name": {"{egress: [{ports: [{port: https}]}], policyTypes: [Egress]}", `NetworkPolicy a/p: the port "https" has a name`},
		"IPv6":          {"{egress: [{to: [{ipBlock: {cidr: 'fd00::/8'}}]}], policyTypes: [Egress]}", "NetworkPolicy a/p: fd00::/8 is no block"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := testWorld(t, tc.policy).Rules(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

// TestRules_StableOrder has objects in another order.
func TestRules_StableOrder(t *testing.T) {
	const one, two = "{egress: [{ports: [{port: 2}]}], policyTypes: [Egress]}", "{ingress: [{from: [{podSelector: {}}]}], policyTypes: [Ingress]}"
	first, err := testWorld(t, one, two).Rules()
	if err != nil {
		t.Fatal(err)
	}
	w := testWorld(t, two, one)
	slices.Reverse(w.Pods)
	if second, err := w.Rules(); err != nil || first != second {
		t.Errorf("%v\n%s\n---\n%s", err, first, second)
	}
}
