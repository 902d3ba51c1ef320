// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func testValues() values {
	return layout{Root: "/src", State: "/state"}.values("/cni", "native")
}

// documents renders a file and reads it as YAML.
func documents(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	content, err := render(name, testValues())
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content))
	for {
		one := &unstructured.Unstructured{}
		if err := decoder.Decode(&one.Object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, content)
		}
		all = append(all, one)
	}
}

// field returns what is at a path of names.
func field(t *testing.T, o *unstructured.Unstructured, path ...string) any {
	t.Helper()
	value, found, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil || !found {
		t.Errorf("%s has no %s: %v", o.GetKind(), strings.Join(path, "."), err)
	}
	return value
}

func TestKubelet(t *testing.T) {
	k := documents(t, "kubelet.yaml")[0]
	for path, want := range map[string]any{
		"kind": "KubeletConfiguration", "address": bridgeAddress, "containerRuntimeEndpoint": "unix:///state/containerd.sock",
		"clusterDomain": domain, "tlsCertFile": "/state/pki/kubelet.crt", "authentication.x509.clientCAFile": "/state/pki/ca.crt",
		"authentication.anonymous.enabled": false, "resolvConf": "", "cgroupsPerQOS": false, "podLogsDir": "/state/pods",
	} {
		if got := field(t, k, strings.Split(path, ".")...); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if dns, _ := field(t, k, "clusterDNS").([]any); len(dns) != 1 || dns[0] != dnsService {
		t.Errorf("the name servers are %v", dns)
	}
	// A key that is not a path: its name has a dot.
	if eviction, _ := field(t, k, "evictionHard").(map[string]any); eviction["nodefs.available"] != "0%" {
		t.Errorf("pods are evicted at %v", eviction)
	}
}

func TestProxy(t *testing.T) {
	p := documents(t, "kube-proxy.yaml")[0]
	for path, want := range map[string]any{
		"mode": "nftables", "hostnameOverride": nodeName, "clusterCIDR": podNetwork, "clientConnection.kubeconfig": "/state/kube-proxy.kubeconfig",
	} {
		if got := field(t, p, strings.Split(path, ".")...); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

func TestManifests(t *testing.T) {
	byKind := map[string]int{}
	for _, o := range documents(t, "manifests.yaml") {
		byKind[o.GetKind()]++
		if o.GetKind() == "Service" && field(t, o, "spec", "clusterIP") != dnsService {
			t.Errorf("the name server's address is %v, not what pods are told", field(t, o, "spec", "clusterIP"))
		}
		if o.GetName() == "e2e-3" && field(t, o, "spec", "hostPath", "path") != "/state/volumes/e2e-3" {
			t.Errorf("a volume lies in %v", field(t, o, "spec", "hostPath", "path"))
		}
	}
	if byKind["PersistentVolume"] != volumes || byKind["Deployment"] != 1 {
		t.Errorf("there are %v", byKind)
	}
}

func TestContainerd(t *testing.T) {
	content, err := render("containerd.toml", testValues())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`address = "/state/containerd.sock"`, `bin_dir = "/cni"`, `snapshotter = "native"`,
		`sandbox_image = "docker.io/local/pause:1"`, "restrict_oom_score_adj = true", `Root = "/state/runc"`,
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("there is no %s in\n%s", want, content)
		}
	}
	if strings.Contains(string(content), "<no value>") {
		t.Errorf("something is missing in\n%s", content)
	}
}

func TestCniNetwork(t *testing.T) {
	content, err := cniNetwork("/state/addresses")
	if err != nil {
		t.Fatal(err)
	}
	var network struct {
		Plugins []struct {
			Bridge      string
			HairpinMode bool
			IPMasq      bool
			IPAM        struct {
				DataDir string
				Ranges  [][]struct{ Subnet, Gateway string }
			}
		}
	}
	if err := json.Unmarshal(content, &network); err != nil || len(network.Plugins) != 1 {
		t.Fatalf("%v in %s", err, content)
	}
	p := network.Plugins[0]
	if p.Bridge != bridge || !p.HairpinMode || p.IPMasq || p.IPAM.DataDir != "/state/addresses" {
		t.Errorf("pods are connected as in %s", content)
	}
	if r := p.IPAM.Ranges[0][0]; r.Subnet != podNetwork || r.Gateway != bridgeAddress {
		t.Errorf("the addresses are %+v", r)
	}
}

// TestAddresses checks what constants cannot: that they fit together.
func TestAddresses(t *testing.T) {
	pods, services := netip.MustParsePrefix(podNetwork), netip.MustParsePrefix(serviceNetwork)
	if pods.Overlaps(services) {
		t.Error("pods and Services have the same addresses")
	}
	if !pods.Contains(netip.MustParseAddr(bridgeAddress)) || bridgePrefix().String() != "10.98.0.1/24" {
		t.Errorf("the bridge has %s, outside of %s", bridgePrefix(), pods)
	}
	if !services.Contains(netip.MustParseAddr(dnsService)) || services.Addr().Next() != netip.MustParseAddr(apiService) {
		t.Errorf("of %s, the API server does not get %s, or the name server cannot have %s", services, apiService, dnsService)
	}
	const longest = 15 // Of the name of a device, in the kernel.
	for _, name := range []string{bridge, serviceBridge} {
		if len(name) > longest {
			t.Errorf("the name %s is too long", name)
		}
	}
}
