// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestSchemas_Limits checks the schemas: a list, map or string without a
// limit lets one object fill etcd, and makes rules over it too expensive.
func TestSchemas_Limits(t *testing.T) {
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) != 10 {
		t.Fatalf("want 10 kinds, got %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var crd map[string]any
			if err := yaml.Unmarshal(content, &crd); err != nil {
				t.Fatal(err)
			}
			versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
			if err != nil || len(versions) != 1 {
				t.Fatalf("want one version, got %v, %v", versions, err)
			}
			for _, part := range []string{"spec", "status"} {
				schema, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", part)
				if err != nil || !found {
					t.Fatalf("no schema of %s: %v", part, err)
				}
				checkBounds(t, part, schema)
			}
		})
	}
}

func checkBounds(t *testing.T, path string, schema map[string]any) {
	t.Helper()
	has := func(field string) bool { _, ok := schema[field]; return ok }
	properties, _ := schema["properties"].(map[string]any)
	if _, selector := properties["matchExpressions"]; selector {
		return // metav1.LabelSelector has no limits of its own.
	}
	switch schema["type"] {
	case "string":
		if !has("maxLength") && !has("enum") && schema["format"] != "date-time" {
			t.Errorf("%s: a string without maxLength", path)
		}
	case "array":
		if !has("maxItems") {
			t.Errorf("%s: a list without maxItems", path)
		}
		checkBounds(t, path+"[]", schema["items"].(map[string]any))
	case "object":
		values, _ := schema["additionalProperties"].(map[string]any)
		if values != nil {
			if !has("maxProperties") {
				t.Errorf("%s: a map without maxProperties", path)
			}
			checkBounds(t, path+"{}", values)
		}
		if values == nil && len(properties) == 0 && !has("maxProperties") {
			t.Errorf("%s: an object without a schema", path)
		}
		for name, property := range properties {
			checkBounds(t, path+"."+name, property.(map[string]any))
		}
	}
}

func TestDefaults(t *testing.T) {
	namespace := newNamespace(t)
	for name, tc := range map[string]struct {
		kind, body string
		want       map[string]any
	}{
		"Backup without a spec": {
			kind: "Backup", body: `{}`,
			want: map[string]any{"spec.desiredState": "Run", "spec.deletionPolicy": "Retain"},
		},
		"Backup": {
			kind: "Backup", body: `{spec: {includedNamespaces: [a]}}`,
			want: map[string]any{"spec.desiredState": "Run", "spec.deletionPolicy": "Retain", "spec.ttl": nil, "spec.storageLocation": nil},
		},
		"Restore": {
			kind: "Restore", body: `{spec: {backupName: b}}`,
			want: map[string]any{
				"spec.desiredState": "Run", "spec.existingResourcePolicy": "none", "spec.scheduleName": nil,
				"spec.storageLocation": nil, "spec.restoreStatus": nil, "spec.preserveNodePorts": nil, "spec.dryRun": nil, "spec.takeOver": nil,
			},
		},
		"BackupStorageLocation": {
			kind: "BackupStorageLocation", body: `{spec: {filesystem: {}}}`,
			want: map[string]any{"spec.accessMode": "ReadWrite", "spec.default": nil},
		},
		"Plugin": {
			kind: "Plugin", body: `{spec: {executor: {process: {command: p}}}}`,
			want: map[string]any{"spec.failurePolicy": "Fail", "spec.executor.process.startTimeout": "30s", "spec.suspend": nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := parse(t, tc.kind, namespace, tc.body)
			if err := admin.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			for path, want := range tc.want {
				if got := at(object, path); got != want {
					t.Errorf("%s is %v, want %v", path, got, want)
				}
			}
		})
	}
	action := parse(t, "Plugin", "", `{spec: {executor: {process: {command: p}}, actions: [{name: a, kind: PreBackupAction}]}}`)
	if err := admin.Create(t.Context(), action, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	got := typed(t, action).(*v1alpha1.Plugin).Spec.Actions[0]
	if got.Timeout.Minutes() != 10 || got.Retries != 0 || got.Order != 0 || got.FailurePolicy != "" ||
		got.OnInterruption != v1alpha1.InterruptionPolicyRetry {
		t.Errorf("defaults of an action are %+v", got)
	}
}

// TestObservedGeneration creates an object of each kind: its status is about no generation until a
// controller writes one, whatever else is in it.
func TestObservedGeneration(t *testing.T) {
	namespace := newNamespace(t)
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			object := createForNow(t, kind.kind, namespace, kind.body)
			if got := at(object, "status"); !reflect.DeepEqual(got, map[string]any{"observedGeneration": int64(-1)}) {
				t.Errorf("the status of a new object is %v", got)
			}
			for _, status := range []string{kind.status, `{"observedGeneration":1}`} {
				if err := admin.Status().Patch(t.Context(), object, merge(`{"status":`+status+`}`)); err != nil {
					t.Fatal(err)
				}
			}
			if got := at(object, "status.observedGeneration"); got != object.GetGeneration() {
				t.Errorf("the observed generation is %v, want %d", got, object.GetGeneration())
			}
		})
	}
}

// TestStatusSubresource writes the spec through the status subresource and vice versa.
func TestStatusSubresource(t *testing.T) {
	namespace := newNamespace(t)
	for kind, body := range map[string]string{
		"Backup":                `{spec: {storageLocation: a}, status: {message: mine}}`,
		"Restore":               `{spec: {backupName: a}, status: {message: mine}}`,
		"BackupStorageLocation": `{spec: {filesystem: {}, prefix: a}, status: {message: mine}}`,
		"Plugin":                `{spec: {executor: {process: {command: a}}}, status: {message: mine}}`,
		"HookRun":               `{spec: {` + hookRun + `, timeout: 1m, desiredState: Wait}, status: {message: mine}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			object := createForNow(t, kind, namespace, body)
			spec := object.Object["spec"]
			if got := at(object, "status.message"); got != nil {
				t.Errorf("create writes the status: %v", got)
			}
			if err := admin.Patch(t.Context(), object, merge(`{"status":{"message":"mine"}}`)); err != nil {
				t.Fatal(err)
			}
			if got := at(object, "status.message"); got != nil {
				t.Errorf("an update writes the status: %v", got)
			}
			if err := admin.Status().Patch(t.Context(), object, merge(`{"status":{"message":"theirs"},"spec":null}`)); err != nil {
				t.Fatal(err)
			}
			if got := at(object, "status.message"); got != "theirs" {
				t.Errorf("the status is %v", got)
			}
			if got, _ := json.Marshal(object.Object["spec"]); string(got) != mustMarshal(t, spec) {
				t.Errorf("a status update changes the spec from %s to %s", mustMarshal(t, spec), got)
			}
		})
	}
}

func mustMarshal(t *testing.T, value any) string {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
