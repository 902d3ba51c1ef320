// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/modifier"
)

func parseModifiers(t testing.TB, rules string) *modifier.Rules {
	t.Helper()
	parsed, errs := modifier.Parse(map[string]string{"rules": "version: v1\nresourceModifierRules:\n" + rules})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return parsed
}

// TestRestoreObjects_Modifiers restores modified objects into another namespace, after a plugin
// has changed them. An object that cannot be modified is not restored.
func TestRestoreObjects_Modifiers(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns, mapped = "modified", "modified-again"
	labeler := &plugged{name: "labeler", of: []string{"configmaps"}, execute: func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		item.Object.SetLabels(map[string]string{"by": "plugin"})
		return itemaction.Result{}, nil
	}}
	namespaceObject := obj(t, "v1", "Namespace", "", ns, "")
	a, broken, other := configMap(t, ns, "a", "archived"), configMap(t, ns, "broken", "archived"), configMap(t, ns, "other", "archived")
	secret := obj(t, "v1", "Secret", ns, "stamp", `{"type":"Opaque","stringData":{"key":"mine"}}`)
	request := restore.Request{
		Archive:          spool(t, []*unstructured.Unstructured{namespaceObject, a, broken, other, secret}),
		NamespaceMapping: map[string]string{ns: mapped}, RestoreUID: "u", Actions: []itemaction.RestorePluginAction{labeler},
		Modifiers: parseModifiers(t, `
- conditions: {groupResource: configmaps, resourceNameRegex: "^a$", namespaces: [modified], labelSelector: {matchLabels: {by: plugin}}}
  patches: [{operation: replace, path: /data/key, value: rule}, {operation: add, path: /metadata/annotations, value: '{"grapnel.dev/restored": "forged"}'}]
- conditions: {groupResource: configmaps, resourceNameRegex: broken}
  patches: [{operation: remove, path: /data/missing}]
- conditions: {groupResource: secrets}
  mergePatches: [{patchData: "type: grapnel.dev/restore-stamp-key"}]
- conditions: {groupResource: namespaces}
  mergePatches: [{patchData: "metadata: {labels: {team: a}}"}]
- conditions: {groupResource: configmaps, namespaces: [modified-again]}
  mergePatches: [{patchData: "data: null"}]
`),
	}
	want := map[restore.Outcome]int{restore.Created: 3, restore.Failed: 2}
	const unmatched = "warning run: resource modifier: no object meets the conditions of rule "
	wantModified := func(result restore.Result, more ...string) {
		t.Helper()
		wantCounts(t, result, want)
		wantMessages(t, result, append(more,
			"error "+mapped+": |broken|resource modifier: rule 2, patch 1 (remove /data/missing): |fix the rule and restore again",
			"error "+mapped+": |stamp|resource modifier: an object in the modified form is never restored")...)
	}
	// In a dry run, the plugin does not label the object, so rule 1 does not apply.
	request.DryRun = true
	wantModified(c.run(request), "warning run: |labeler|is not called in a dry run", unmatched+"1", unmatched+"5")
	request.DryRun = false
	result := c.run(request)
	wantModified(result, unmatched+"5")
	if got := result.Actions["configmaps"]; !slices.Contains(got, "grapnel.dev/resource-modifier") {
		t.Errorf("actions of configmaps: %v", got)
	}
	for _, o := range []*unstructured.Unstructured{a, broken, other, secret} {
		o.SetNamespace(mapped)
	}
	for o, want := range map[*unstructured.Unstructured]string{a: "rule", other: "archived"} {
		if got, _, _ := unstructured.NestedString(c.get(o).Object, "data", "key"); got != want {
			t.Errorf("%s has %q, want %q", o.GetName(), got, want)
		}
	}
	if c.has(broken) || c.has(secret) {
		t.Error("an object that could not be modified was restored")
	}
	namespaceObject.SetName(mapped)
	if got := c.get(namespaceObject).GetLabels()["team"]; got != "a" {
		t.Errorf("the namespace has team %q", got)
	}

	// The same restore, after an interruption, recognizes its objects; another one compares with the
	// modified form.
	request.Resumed = true
	wantModified(c.run(request))
	request.RestoreUID, request.Resumed = "v", false
	want = map[restore.Outcome]int{restore.Unchanged: 3, restore.Failed: 2}
	request.Policy = restore.ExistingUpdate
	wantModified(c.run(request), unmatched+"5")
}

// TestRestoreObjects_ModifiersAndExistingObjects: a field that a rule removes is removed from an
// existing object, too, though other fields that only the cluster and the archive have are kept.
func TestRestoreObjects_ModifiersAndExistingObjects(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "modified-existing"
	c.namespace(ns)
	service := c.create(obj(t, "v1", "Service", ns, "s", `{"spec":{"type":"NodePort","sessionAffinity":"ClientIP","ports":[{"port":80}],
		"selector":{"app":"web","zone":"a"}},"metadata":{"annotations":{"old":"yes"}}}`))[0]
	request := restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{service}), RestoreUID: "u", Policy: restore.ExistingUpdate,
		Modifiers: parseModifiers(t, `
- conditions: {groupResource: services}
  patches:
  - {operation: remove, path: /spec/selector/zone}
  - {operation: remove, path: /metadata/annotations/old}
`),
	}
	wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Updated: 1})
	got := c.get(service)
	selector, _, _ := unstructured.NestedStringMap(got.Object, "spec", "selector")
	if diff := cmp.Diff(map[string]string{"app": "web"}, selector); diff != "" || got.GetAnnotations()["old"] != "" {
		t.Errorf("annotations %v, selector (-want +got):\n%s", got.GetAnnotations(), diff)
	}
	if diff := cmp.Diff(nodePorts(service), nodePorts(got)); diff != "" {
		t.Errorf("node ports (-before +after):\n%s", diff)
	}
	request.Policy, request.RestoreUID = restore.ExistingNone, "v"
	request.Modifiers = parseModifiers(t, "- conditions: {groupResource: services}\n  mergePatches: [{patchData: 'spec: {selector: {zone: b}}'}]\n")
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Skipped: 1})
	if !strings.Contains(messages(result), "differs from the backup in") {
		t.Errorf("messages:\n%s", messages(result))
	}
}

// TestRestoreObjects_ConfiguredChanges changes storage classes and images, before plugins see the
// objects. A class may be restored from the same backup.
func TestRestoreObjects_ConfiguredChanges(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "configured"
	class := obj(t, "storage.k8s.io/v1", "StorageClass", "", "configured-new", `{"provisioner":"example.org/none"}`)
	claim := func(name, class string) *unstructured.Unstructured {
		return obj(t, "v1", "PersistentVolumeClaim", ns, name, `{"spec":{"storageClassName":"`+class+`","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	}
	good, lost := claim("good", "old"), claim("lost", "gone")
	pod := obj(t, "v1", "Pod", ns, "p", `{"spec":{"containers":[{"name":"app","image":"old.example.org/app:1"}]}}`)
	watcher := &plugged{name: "watcher", of: []string{"pods"}, execute: func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		containers, _, _ := unstructured.NestedSlice(item.Object.Object, "spec", "containers")
		return itemaction.Result{Warnings: []string{"shown " + containers[0].(map[string]any)["image"].(string)}}, nil
	}}
	request := restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{class, good, lost, pod}), RestoreUID: "u", DryRun: true,
		StorageClasses: action.StorageClassChanges{ConfigMap: "classes", Names: map[string]string{"old": class.GetName(), "gone": "a/b"}},
		Images:         []action.ImageChange{{Old: "old.example.org", New: "new.example.org"}},
	}
	const refused = "error " + ns + ": |lost|ConfigMap classes changes its storage class gone to \"a/b\", which does not exist"
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 4, restore.Failed: 1})
	wantMessages(t, result, refused)
	request.DryRun, request.Actions = false, []itemaction.RestorePluginAction{watcher}
	result = c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 4, restore.Failed: 1})
	wantMessages(t, result, refused, "warning "+ns+": |p|shown new.example.org/app:1")
	if got, _, _ := unstructured.NestedString(c.get(good).Object, "spec", "storageClassName"); got != class.GetName() {
		t.Errorf("the claim has class %q", got)
	}
	if got := result.Actions["pods"]; !slices.Contains(got, "grapnel.dev/change-image-name") {
		t.Errorf("actions of pods: %v", got)
	}
	// An existing object is compared with the changed form.
	deployment := c.create(obj(t, "apps/v1", "Deployment", ns, "d", `{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"app","image":"old.example.org/app:1"}]}}}}`))[0]
	request = restore.Request{Archive: spool(t, []*unstructured.Unstructured{deployment}), RestoreUID: "v", Policy: restore.ExistingUpdate, Images: request.Images}
	wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Updated: 1})
	request.RestoreUID = "w"
	wantCounts(t, c.run(request), map[restore.Outcome]int{restore.Unchanged: 1})
}
