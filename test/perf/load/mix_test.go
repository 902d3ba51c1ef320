// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/test/perf/load"
)

func TestObject_Deterministic(t *testing.T) {
	for i := range 40 {
		if diff := cmp.Diff(load.Object(i, 2), load.Object(i, 2)); diff != "" {
			t.Fatalf("object %d is made differently the second time:\n%s", i, diff)
		}
	}
	content := func(i int) []byte { return load.LargeSecret(i, "x").(*corev1.Secret).Data["data"] }
	if !bytes.Equal(content(3), content(3)) {
		t.Error("a large Secret is made differently the second time")
	}
	if bytes.Equal(content(3), content(4)) {
		t.Error("two large Secrets have the same data")
	}
}

func TestObject_NamespaceMix(t *testing.T) {
	const namespaces, each = 3, 40
	mixes := map[string]map[string]int{}
	names := map[string]bool{}
	for i := range namespaces * each {
		o := load.Object(i, namespaces)
		kind := fmt.Sprintf("%T", o)
		if mixes[o.GetNamespace()] == nil {
			mixes[o.GetNamespace()] = map[string]int{}
		}
		mixes[o.GetNamespace()][kind]++
		names[kind+o.GetNamespace()+o.GetName()] = true
	}
	want := map[string]int{
		"*v1.ConfigMap": 10, "*v1.Secret": 10, "*v1.Service": 4, "*v1.ServiceAccount": 4,
		"*v1.Role": 2, "*v1.RoleBinding": 2, "*v1.Deployment": 6, "*v1.CronJob": 2,
	}
	for i := range namespaces {
		if diff := cmp.Diff(want, mixes[load.NamespaceName(i)]); diff != "" {
			t.Errorf("namespace %d (-want +got):\n%s", i, diff)
		}
	}
	if len(names) != namespaces*each {
		t.Errorf("%d objects have %d names", namespaces*each, len(names))
	}
	if n := len(load.Collections()); n != len(want) {
		t.Errorf("%d kinds are listed, and %d created", n, len(want))
	}
}

func TestPath(t *testing.T) {
	got := map[string]string{}
	for i := range 20 {
		got[fmt.Sprintf("%T", load.Object(i, 1))] = load.Path(i, 1, "there")
	}
	want := map[string]string{
		"*v1.ConfigMap":      "/api/v1/namespaces/there/configmaps",
		"*v1.Secret":         "/api/v1/namespaces/there/secrets",
		"*v1.Service":        "/api/v1/namespaces/there/services",
		"*v1.ServiceAccount": "/api/v1/namespaces/there/serviceaccounts",
		"*v1.Role":           "/apis/rbac.authorization.k8s.io/v1/namespaces/there/roles",
		"*v1.RoleBinding":    "/apis/rbac.authorization.k8s.io/v1/namespaces/there/rolebindings",
		"*v1.Deployment":     "/apis/apps/v1/namespaces/there/deployments",
		"*v1.CronJob":        "/apis/batch/v1/namespaces/there/cronjobs",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
