// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestRestoreObjects_Services has Services that are restored into another namespace while the
// originals still have their addresses and ports.
func TestRestoreObjects_Services(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, mapped = "services", "services-again"
	c.namespace(ns)
	service := func(name, spec string) *unstructured.Unstructured {
		return obj(t, "v1", "Service", ns, name, fmt.Sprintf(`{"spec":{%s}}`, spec))
	}
	archived := c.create(
		service("cluster", `"ports":[{"port":80}],"selector":{"a":"b"}`),
		service("node", `"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81}]`),
		service("balancer", `"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"port":80}]`),
		service("headless", `"clusterIP":"None","ports":[{"port":80}]`),
		service("external", `"type":"ExternalName","externalName":"example.org"`),
	)
	// The API server allocates ports above 30085 first, so no other Service has this one.
	stated := service("stated", `"type":"NodePort","ports":[{"port":80,"nodePort":30077}]`)
	stated.SetAnnotations(map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{"ports":[{"port":80,"nodePort":30077}]}}`,
	})
	archived = append(archived, c.create(stated)...)
	s := spool(t, archived)
	again := func(ns string, preserve bool) restore.Result {
		return c.run(restore.Request{
			Archive: s, NamespaceMapping: map[string]string{"services": ns}, PreserveNodePorts: preserve, RestoreUID: "u",
		})
	}
	result := again(mapped, false)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 6, restore.Failed: 1})
	wantMessages(t, result, `error services-again: |services "services-again/stated"|provided port is already allocated|change that Service`)
	for _, o := range archived[:5] {
		o = o.DeepCopy()
		before := nodePorts(o)
		o.SetNamespace(mapped)
		got := c.get(o)
		if diff := cmp.Diff(comparable(o)["spec"], comparable(got)["spec"]); diff != "" {
			t.Errorf("%s (-archived +restored):\n%s", o.GetName(), diff)
		}
		ip, _, _ := unstructured.NestedString(got.Object, "spec", "clusterIP")
		old, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP")
		if (ip == old) != (o.GetName() == "headless" || o.GetName() == "external") {
			t.Errorf("%s has address %q, the original %q", o.GetName(), ip, old)
		}
		if after := nodePorts(got); len(after) != len(before) || len(after) > 0 && after[0] == before[0] {
			t.Errorf("%s has node ports %v, the original %v", o.GetName(), after, before)
		}
	}

	// With their ports they conflict with the originals.
	result = again(mapped+"-2", true)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 4, restore.Failed: 3})
	if got := strings.Count(messages(result), "restore without preserveNodePorts"); got != 3 {
		t.Errorf("results:\n%s", messages(result))
	}
	for _, o := range archived {
		if err := c.of(o).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	result = again(mapped+"-3", true)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 7})
	wantMessages(t, result)
	for _, o := range archived {
		before := nodePorts(o)
		o.SetNamespace(mapped + "-3")
		if diff := cmp.Diff(before, nodePorts(c.get(o))); diff != "" {
			t.Errorf("node ports of %s (-archived +restored):\n%s", o.GetName(), diff)
		}
	}
}

// nodePorts returns the node ports of a Service, in the order of its ports, and the one for
// health checks.
func nodePorts(service *unstructured.Unstructured) []int64 {
	var out []int64
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, entry := range ports {
		if port, ok := entry.(map[string]any)["nodePort"].(int64); ok {
			out = append(out, port)
		}
	}
	if port, ok, _ := unstructured.NestedInt64(service.Object, "spec", "healthCheckNodePort"); ok {
		out = append(out, port)
	}
	return out
}
