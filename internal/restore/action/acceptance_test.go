// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/restore/action"
)

func (c cluster) testAccepted(t testing.TB) {
	t.Helper()
	c.namespace(t, "from")
	c.namespace(t, "to")
	class := c.create(t, `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"gold"},"value":100,"preemptionPolicy":"Never"}`)
	pod := c.create(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"from"},
		"spec":{"nodeName":"n","priorityClassName":"gold","containers":[{"name":"c","image":"i"}]}}`)
	debug := pod.DeepCopy()
	_ = unstructured.SetNestedSlice(debug.Object, []any{map[string]any{"name": "debug", "image": "i"}}, "spec", "ephemeralContainers")
	if err := c.SubResource("ephemeralcontainers").Update(t.Context(), debug); err != nil {
		t.Fatal(err)
	}
	objects := []*unstructured.Unstructured{c.refresh(t, pod)}
	for _, text := range []string{
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"from"},"spec":{"suspend":true,
			"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"t","namespace":"from","annotations":{"kubernetes.io/service-account.name":"default"}},
			"type":"kubernetes.io/service-account-token"}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"rb","namespace":"from"},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},
			"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"from"}]}`,
		`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"pvc","namespace":"from"},
			"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
	} {
		objects = append(objects, c.create(t, text))
	}
	// In the new cluster the class has another meaning.
	c.remove(t, class)
	c.create(t, `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"gold"},"value":7}`)
	for _, object := range objects {
		c.restore(t, object, run("from", "to"))
	}
	restored := parse(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"to"}}`)
	if c.refresh(t, restored); action.GetInt(restored.Object, "spec", "priority") != 7 {
		t.Errorf("priority %v, want that of the class now", restored.Object["spec"])
	}

	for _, text := range []string{
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.org"},
			"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
		`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"w"},
			"webhooks":[{"name":"w.example.org","sideEffects":"None","admissionReviewVersions":["v1"],
			"clientConfig":{"service":{"name":"w","namespace":"from"}},"failurePolicy":"Ignore"}]}`,
		`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.other.example.org"},
			"spec":{"group":"other.example.org","version":"v1","groupPriorityMinimum":100,"versionPriority":100,
			"service":{"name":"w","namespace":"from"},"insecureSkipTLSVerify":true}}`,
	} {
		archived := c.create(t, text)
		c.remove(t, archived)
		c.remove(t, c.restore(t, archived, run("from", "to")))
	}
}

func (c cluster) testServices(t testing.TB) {
	t.Helper()
	c.namespace(t, "services")
	c.namespace(t, "services-2")
	service := func(name, more, ports string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"namespace":"services"},
			"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local"%s,"ports":%s}}`, name, more, ports)
	}
	allocated := c.create(t, service("allocated", "", `[{"port":80}]`))
	restored := c.restore(t, allocated, run("services", "services-2")) // refused if it kept an address or a port
	if action.GetInt(restored.Object, "spec", "healthCheckNodePort") == 0 {
		t.Errorf("the restored Service has no ports of its own: %v", restored.Object["spec"])
	}

	stated := c.create(t, service("stated", `,"healthCheckNodePort":30082,"ipFamilies":["IPv4"]`,
		`[{"name":"a","port":80,"nodePort":30078},{"name":"b","port":81}]`))
	c.remove(t, stated)
	got := restorable(t, c, stated, run("", ""))
	if len(action.Get[[]any](got.Object, "spec", "ipFamilies")) != 1 || action.GetInt(got.Object, "spec", "healthCheckNodePort") != 30082 {
		t.Errorf("what was stated is lost: %v", got.Object["spec"])
	}
	for port := range action.EachMap(got.Object, "spec", "ports") {
		if want := map[string]int64{"a": 30078, "b": 0}[action.Get[string](port, "name")]; action.GetInt(port, "nodePort") != want {
			t.Errorf("port %v, want node port %d", port, want)
		}
	}
	if err := c.Create(t.Context(), got); err != nil {
		t.Error(err)
	}
}

func (c cluster) testAdoption(t testing.TB) {
	t.Helper()
	c.namespace(t, "app")
	c.namespace(t, "app-2")
	deployment := c.create(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"app"},
		"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	owned := func(namespace, kind string) []unstructured.Unstructured {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(map[string]string{"Pod": "v1", "ReplicaSet": "apps/v1"}[kind])
		list.SetKind(kind + "List")
		if err := c.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	c.await(t, "the Pods of the Deployment", func() bool { return len(owned("app", "Pod")) == 2 })
	names := map[string]bool{}
	for _, kind := range []string{"Pod", "ReplicaSet"} {
		for _, object := range owned("app", kind) {
			names[object.GetName()] = true
			c.restore(t, &object, run("app", "app-2"))
		}
	}
	c.restore(t, c.refresh(t, deployment), run("app", "app-2"))

	c.await(t, "everything to have an owner", func() bool {
		all := append(owned("app-2", "Pod"), owned("app-2", "ReplicaSet")...)
		for _, object := range all {
			if len(object.GetOwnerReferences()) == 0 {
				return false
			}
		}
		return len(all) == 3
	})
	for _, kind := range []string{"Pod", "ReplicaSet"} {
		for _, object := range owned("app-2", kind) {
			if !names[object.GetName()] {
				t.Errorf("%s %s was made beside the restored ones", kind, object.GetName())
			}
		}
	}
}
