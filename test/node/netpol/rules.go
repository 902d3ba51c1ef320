// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Table is the name of the table, of the family ip.
const Table = "grapnel-e2e"

// World is what decides who may connect to whom.
type World struct {
	Policies   []networkingv1.NetworkPolicy
	Pods       []corev1.Pod
	Namespaces []corev1.Namespace
}

// direction is one of the two that a policy may isolate a pod in.
type direction struct {
	kind networkingv1.PolicyType
	// own and other match the addresses of the pod and of its peer.
	own, other string
}

func directions() []direction {
	return []direction{
		{networkingv1.PolicyTypeEgress, "ip saddr", "ip daddr"},
		{networkingv1.PolicyTypeIngress, "ip daddr", "ip saddr"},
	}
}

func (d direction) chain() string { return strings.ToLower(string(d.kind)) }

// Rules returns what nft(8) has to load. It replaces the table at once, and is the same
// text for the same world.
func (w World) Rules() (string, error) {
	var chains strings.Builder
	for _, d := range directions() {
		var jumps strings.Builder
		for _, pod := range w.reachable() {
			lines, isolated, err := w.allowed(pod, d)
			if err != nil {
				return "", err
			}
			if !isolated {
				continue
			}
			chain := d.chain() + "-" + pod.Status.PodIP
			fmt.Fprintf(&jumps, "\t\t%s %s jump %s\n", d.own, pod.Status.PodIP, chain)
			fmt.Fprintf(&chains, "\tchain %s {\n%s\t\treject with icmp admin-prohibited\n\t}\n", chain, strings.Join(lines, ""))
		}
		fmt.Fprintf(&chains, "\tchain %s {\n%s\t}\n", d.chain(), jumps.String())
	}
	// The first line makes the table if it is not there, so that the second cannot fail.
	return fmt.Sprintf(`table ip %[1]s
delete table ip %[1]s
table ip %[1]s {
%[2]s	chain forward {
		type filter hook forward priority filter; policy accept;
		ct state established,related accept
		jump egress
		jump ingress
	}
	chain input {
		type filter hook input priority filter; policy accept;
		ct state established,related accept
		jump egress
	}
}
`, Table, chains.String()), nil
}

// reachable are the pods with an address of their own, in the order of these.
func (w World) reachable() []corev1.Pod {
	var pods []corev1.Pod
	for _, pod := range w.Pods {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if pod.Status.PodIP != "" && !pod.Spec.HostNetwork && !ended {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Status.PodIP, b.Status.PodIP) })
	return pods
}

// allowed returns a line for each way that a pod may go, and whether all others are closed.
func (w World) allowed(pod corev1.Pod, d direction) (lines []string, isolated bool, err error) {
	for _, policy := range w.Policies {
		selected, err := selects(&policy.Spec.PodSelector, pod.Labels)
		if err != nil || !selected || policy.Namespace != pod.Namespace || !slices.Contains(policy.Spec.PolicyTypes, d.kind) {
			if err != nil {
				return nil, false, refused(policy, err)
			}
			continue
		}
		isolated = true
		for _, rule := range rulesOf(policy, d.kind) {
			more, err := w.lines(policy.Namespace, rule, d)
			if err != nil {
				return nil, false, refused(policy, err)
			}
			lines = append(lines, more...)
		}
	}
	// Policies come in any order, which makes no difference.
	slices.Sort(lines)
	return slices.Compact(lines), isolated, nil
}

func refused(policy networkingv1.NetworkPolicy, err error) error {
	return fmt.Errorf("NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
}

// rule is one of either direction.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func rulesOf(policy networkingv1.NetworkPolicy, kind networkingv1.PolicyType) []rule {
	var rules []rule
	if kind == networkingv1.PolicyTypeEgress {
		for _, r := range policy.Spec.Egress {
			rules = append(rules, rule{r.To, r.Ports})
		}
		return rules
	}
	for _, r := range policy.Spec.Ingress {
		rules = append(rules, rule{r.From, r.Ports})
	}
	return rules
}

// lines returns a line for each pair of a peer and a port. None of either means all.
func (w World) lines(namespace string, r rule, d direction) ([]string, error) {
	addresses, ports := []string{""}, []string{""}
	if len(r.peers) > 0 {
		addresses = nil
	}
	for _, peer := range r.peers {
		match, err := w.match(namespace, peer, d.other)
		if err != nil {
			return nil, err
		}
		if match != "" {
			addresses = append(addresses, match)
		}
	}
	if len(r.ports) > 0 {
		ports = nil
	}
	for _, port := range r.ports {
		match, err := matchPort(port)
		if err != nil {
			return nil, err
		}
		ports = append(ports, match)
	}
	var lines []string
	for _, address := range addresses {
		for _, port := range ports {
			lines = append(lines, "\t\t"+address+port+"return\n")
		}
	}
	return lines, nil
}

// match returns an expression for the addresses of a peer, "" if it has none at the moment.
func (w World) match(namespace string, peer networkingv1.NetworkPolicyPeer, field string) (string, error) {
	if peer.IPBlock != nil {
		return matchBlock(peer.IPBlock, field)
	}
	var found []string
	for _, pod := range w.reachable() {
		is, err := w.isPeer(namespace, peer, pod)
		if err != nil {
			return "", err
		}
		if is {
			found = append(found, pod.Status.PodIP)
		}
	}
	if len(found) == 0 {
		return "", nil
	}
	return fmt.Sprintf("%s { %s } ", field, strings.Join(found, ", ")), nil
}

func matchBlock(block *networkingv1.IPBlock, field string) (string, error) {
	for _, cidr := range append([]string{block.CIDR}, block.Except...) {
		if prefix, err := netip.ParsePrefix(cidr); err != nil || !prefix.Addr().Is4() {
			return "", fmt.Errorf("%s is no block of IPv4 addresses, which are all that is enforced here", cidr)
		}
	}
	text := field + " " + block.CIDR + " "
	if len(block.Except) > 0 {
		text += fmt.Sprintf("%s != { %s } ", field, strings.Join(block.Except, ", "))
	}
	return text, nil
}

func (w World) isPeer(namespace string, peer networkingv1.NetworkPolicyPeer, pod corev1.Pod) (bool, error) {
	if peer.NamespaceSelector == nil && pod.Namespace != namespace {
		return false, nil
	}
	if peer.NamespaceSelector != nil {
		i := slices.IndexFunc(w.Namespaces, func(n corev1.Namespace) bool { return n.Name == pod.Namespace })
		if i < 0 {
			return false, nil
		}
		if is, err := selects(peer.NamespaceSelector, w.Namespaces[i].Labels); !is {
			return false, err
		}
	}
	if peer.PodSelector == nil {
		return true, nil
	}
	return selects(peer.PodSelector, pod.Labels)
}

func selects(selector *metav1.LabelSelector, set map[string]string) (bool, error) {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, err
	}
	return s.Matches(labels.Set(set)), nil
}

func matchPort(port networkingv1.NetworkPolicyPort) (string, error) {
	protocol := "tcp"
	if port.Protocol != nil {
		protocol = strings.ToLower(string(*port.Protocol))
	}
	switch {
	case port.Port == nil:
		return "meta l4proto " + protocol + " ", nil
	case port.Port.StrVal != "":
		return "", fmt.Errorf("the port %q has a name, and only numbers are enforced here", port.Port.StrVal)
	case port.EndPort != nil:
		return fmt.Sprintf("%s dport %d-%d ", protocol, port.Port.IntVal, *port.EndPort), nil
	}
	return fmt.Sprintf("%s dport %d ", protocol, port.Port.IntVal), nil
}
