// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// TestRestoreObjects_UnusualObjects has objects that are archived as the API server has them, and restored unchanged.
func TestRestoreObjects_UnusualObjects(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "odd"
	large := make([]byte, 1000<<10) // ConfigMaps take 1 MiB; it is a third more as text
	for i := range large {
		large[i] = byte(rand.IntN(256))
	}
	c.namespace(ns)
	archived := c.create(
		obj(t, "v1", "ConfigMap", ns, "unicode", `{"data":{"key":"ü 漢字 \u0000 \u2028 \ud83d\ude00 </script> \\u0041 \r\n\t"},
			"metadata":{"annotations":{"note":"\u0007 { \"a\": [1, 2.0] } "},"labels":{"empty":""}}}`),
		obj(t, "v1", "ConfigMap", ns, "large", fmt.Sprintf(`{"binaryData":{"key":%q}}`, base64.StdEncoding.EncodeToString(large))),
		obj(t, "v1", "ConfigMap", ns, strings.Repeat("long.", 50)+"nam", `{"data":{"key":"x"}}`),
		obj(t, "rbac.authorization.k8s.io/v1", "Role", ns, "system:odd: role", `{"rules":[]}`),
		obj(t, "rbac.authorization.k8s.io/v1", "Role", ns, "...", `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`),
		obj(t, "rbac.authorization.k8s.io/v1", "ClusterRole", "", "odd:ünï", `{"rules":[{"nonResourceURLs":["*"],"verbs":["get"]}]}`),
		obj(t, "networking.k8s.io/v1", "NetworkPolicy", ns, "empty", `{"spec":{"podSelector":{},"ingress":[{}],"egress":[],"policyTypes":["Ingress","Egress"]}}`),
		obj(t, "discovery.k8s.io/v1", "EndpointSlice", ns, "empty", `{"addressType":"IPv6","endpoints":[],"ports":[]}`),
		obj(t, "v1", "LimitRange", ns, "quantities", `{"spec":{"limits":[{"type":"Container","max":{"cpu":"0.5","memory":"1e9"},"min":{"cpu":"1m","memory":"1024Ki"}}]}}`),
		obj(t, "v1", "Endpoints", ns, "none", `{"subsets":[]}`),
		obj(t, "v1", "Secret", ns, "empty-values", `{"data":{"a":"","b":null},"type":"example.org/x"}`),
	)
	s := spool(t, archived)
	if err := c.of(archived[5]).Delete(t.Context(), archived[5].GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	request := restore.Request{Archive: s, RestoreUID: "u", NamespaceMapping: map[string]string{ns: ns + "-again"}}
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: len(archived) + 1})
	wantMessages(t, result)
	for _, o := range archived {
		if o.GetNamespace() != "" {
			o.SetNamespace(ns + "-again")
		}
		if diff := cmp.Diff(comparable(o), comparable(c.get(o))); diff != "" {
			t.Errorf("%s %s (-archived +restored):\n%.2000s", o.GetKind(), o.GetName(), diff)
		}
	}
	for _, policy := range []restore.ExistingPolicy{restore.ExistingNone, restore.ExistingUpdate, restore.ExistingRecreate} {
		request.Policy, request.RestoreUID = policy, string(policy)
		again := c.run(request)
		wantCounts(t, again, map[restore.Outcome]int{restore.Unchanged: len(archived)})
	}
}

// TestRestoreObjects_OldMetadata has metadata of the old cluster. These are not restored: the generated name, the owners, and the pending
// deletion of the object. A finalizer is.
func TestRestoreObjects_OldMetadata(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "old-life"
	o := obj(t, "v1", "ConfigMap", ns, "c-x7k2p", `{"data":{"key":"x"},"metadata":{"generateName":"c-","uid":"22222222-0000-4000-8000-000000000000",
		"resourceVersion":"99999999","deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"finalizers":["example.org/hold"],
		"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"33333333-0000-4000-8000-000000000000","blockOwnerDeletion":true,"controller":true}],
		"managedFields":[{"manager":"other","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:key":{}}}}]}}`)
	long := strings.Repeat("nightly.", 25) + "1"
	result := c.run(restore.Request{Archive: spool(t, []*unstructured.Unstructured{o}), BackupName: long, RestoreName: long + "2"})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2})
	wantMessages(t, result)
	got := c.get(o)
	metadata := got.Object["metadata"].(map[string]any)
	for _, key := range []string{"generateName", "deletionTimestamp", "ownerReferences"} {
		if metadata[key] != nil {
			t.Errorf("metadata.%s is %v", key, metadata[key])
		}
	}
	if diff := cmp.Diff([]string{"example.org/hold"}, got.GetFinalizers()); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	backup, again := got.GetLabels()["grapnel.dev/backup-name"], got.GetLabels()["grapnel.dev/restore-name"]
	if backup == "" || backup == again || len(validation.IsValidLabelValue(backup)) > 0 || !strings.HasPrefix(backup, "nightly") {
		t.Errorf("the labels of long names are %q and %q", backup, again)
	}
	unhold(c, o)
}

// impostor is a kind of custom resources with the name of a Kubernetes resource.
func impostor(t testing.TB, group, plural, kind, scope string) *unstructured.Unstructured {
	t.Helper()
	return obj(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", plural+"."+group, fmt.Sprintf(`{"spec":{"group":%q,"scope":%q,
		"names":{"plural":%q,"singular":%q,"kind":%q,"listKind":"%sList"},"conversion":{"strategy":"None"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
		group, scope, plural, strings.ToLower(kind), kind, kind))
}

// TestRestoreObjects_SameResourceNames has resources of the same name. They are restored each in its own group.
func TestRestoreObjects_SameResourceNames(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, odd, other = "namesakes", "odd.example.org", "odd2.example.org"
	own := func(group, kind, namespace, name string) *unstructured.Unstructured {
		return obj(t, group+"/v1", kind, namespace, name, `{"spec":{"cpu":"0.50","none":null,"empty":[],"big":9007199254740993},"data":{"key":"own"}}`)
	}
	objects := []*unstructured.Unstructured{
		impostor(t, odd, "configmaps", "ConfigMap", "Namespaced"), impostor(t, other, "configmaps", "ConfigMap", "Namespaced"),
		impostor(t, odd, "nodes", "Node", "Cluster"), impostor(t, odd, "customresourcedefinitions", "CustomResourceDefinition", "Cluster"),
		impostor(t, odd, "persistentvolumes", "PersistentVolume", "Namespaced"), impostor(t, odd, "events", "Event", "Namespaced"),
		configMap(t, ns, "same", "core"), own(odd, "ConfigMap", ns, "same"), own(other, "ConfigMap", ns, "same"),
		own(odd, "Node", "", ns), own(odd, "CustomResourceDefinition", "", "configmaps."+odd),
		own(odd, "PersistentVolume", ns, "same"), own(odd, "Event", ns, "same"),
	}
	s := spool(t, objects)
	request := restore.Request{Archive: s, RestoreUID: "u"}
	for _, dry := range []bool{true, false} {
		request.DryRun = dry
		result := c.run(request)
		wantCounts(t, result, map[restore.Outcome]int{restore.Created: len(objects) + 1})
		wantMessages(t, result)
	}
	for _, o := range objects[6:] {
		want, got := o.Object["data"], c.get(o).Object["data"]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s (-archived +restored):\n%s", o.GroupVersionKind(), o.GetName(), diff)
		}
	}
	request.RestoreUID = "v"
	if again := c.run(request); again.Counts[restore.Unchanged] != len(objects) || again.Results.ErrorCount > 0 {
		t.Errorf("the second restore: %v\n%s", listOf(again), messages(again))
	}
	only := c.run(restore.Request{
		Archive: s, RestoreUID: "w", NamespaceMapping: map[string]string{ns: ns + "-core"},
		Selection: selection.Spec{IncludedResources: []string{"configmaps"}},
	})
	if diff := cmp.Diff(map[string][]string{
		"v1/ConfigMap": {ns + "-core/same(created)"}, "v1/Namespace": {ns + "-core(created)"},
	}, listOf(only)); diff != "" {
		t.Errorf("includedResources: [configmaps] (-want +got):\n%s", diff)
	}
}

// TestRestoreObjects_PrunedFields reports the fields that are not in the schema of the cluster.
func TestRestoreObjects_PrunedFields(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, group = "pruned", "pruned.example.org"
	definition := widgets(t, group, "v1")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	versions[0].(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": map[string]any{
		"type": "object", "properties": map[string]any{"spec": map[string]any{
			"type": "object", "properties": map[string]any{
				"from": map[string]any{"type": "string"}, "size": map[string]any{"type": "integer", "default": int64(3)},
			},
		}},
	}}
	if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	o := widget(t, group, "v1", ns, "w")
	_ = unstructured.SetNestedField(o.Object, "x", "spec", "unknown")
	result := c.run(restore.Request{Archive: spool(t, []*unstructured.Unstructured{definition, o}), RestoreUID: "u"})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 3})
	wantMessages(t, result)
	if diff := cmp.Diff(map[string]any{"from": "v1", "size": int64(3)}, c.get(o).Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestRestoreObjects_InvalidNames uses names that no API server accepts. Each is a separate error.
func TestRestoreObjects_InvalidNames(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "refused-names"
	var objects []*unstructured.Unstructured
	for _, name := range []string{"UPPER", "with space", "per%cent", "ünï", "a?b#c", strings.Repeat("x", 254)} {
		objects = append(objects, configMap(t, ns, name, "x"))
	}
	objects = append(objects, configMap(t, ns, "good", "x"))
	result := c.run(restore.Request{Archive: spool(t, objects), RestoreUID: "u"})
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2, restore.Failed: len(objects) - 1})
	if posts := c.wire.requests("POST", "/configmaps"); len(posts) != len(objects) {
		t.Errorf("POSTs: %v", posts)
	}
	if result.Results.ErrorCount != len(objects)-1 {
		t.Errorf("results:\n%s", messages(result))
	}
}
