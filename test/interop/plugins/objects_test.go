// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

// configMap returns an object whose annotations say what the actions are to do.
func configMap(annotations map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]any{"quote": "\"<&>\" \u00e4\u00f6\u00fc \u2028", "number": "9007199254740993"},
		// What no type of Go has: numbers that are not floats, null, empty lists.
		"extra": map[string]any{"big": int64(9007199254740993), "half": 0.5, "none": nil, "list": []any{}},
	}}
	object.SetNamespace("shop")
	object.SetName("settings")
	object.SetUID("7d0f1c1e-53a5-4e07-8f6a-93d3a8a4f1b2")
	object.SetAnnotations(annotations)
	return object
}

// do returns an object with which the actions do one thing.
func do(what string) *unstructured.Unstructured {
	return configMap(map[string]string{actions.AnnotationDo: what})
}

// veleroBackup is what the actions get about a backup.
func veleroBackup() *api.Backup {
	return &api.Backup{
		TypeMeta: metav1.TypeMeta{APIVersion: "velero.io/v1", Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "grapnel-system", Name: "nightly", UID: runKey, Labels: map[string]string{"team": "shop", "tier": "gold"},
		},
		Spec:   api.BackupSpec{StorageLocation: "main", IncludedNamespaces: []string{"shop"}, TTL: metav1.Duration{Duration: time.Hour}},
		Status: api.BackupStatus{Phase: api.BackupPhaseInProgress},
	}
}

// veleroRestore is what the actions get about a restore.
func veleroRestore() *api.Restore {
	return &api.Restore{
		TypeMeta: metav1.TypeMeta{APIVersion: "velero.io/v1", Kind: "Restore"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "grapnel-system", Name: "again", UID: runKey, Labels: map[string]string{"why": "drill"},
		},
		Spec:   api.RestoreSpec{BackupName: "nightly", NamespaceMapping: map[string]string{"shop": "shop-two"}},
		Status: api.RestoreStatus{Phase: api.RestorePhaseInProgress},
	}
}

func encode(t *testing.T, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// decode returns an object without losing digits of its numbers.
func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return object.Object
}

// expected returns the object that an action's answer means: no object is an unchanged
// one.
func expected(t *testing.T, answer runtime.Unstructured, given *unstructured.Unstructured) map[string]any {
	t.Helper()
	if answer == nil {
		return given.Object
	}
	return decode(t, encode(t, answer.UnstructuredContent()))
}

func refs(in []velero.ResourceIdentifier) []item.Ref {
	var out []item.Ref
	for _, id := range in {
		out = append(out, item.Ref{Group: id.Group, Resource: id.Resource, Namespace: id.Namespace, Name: id.Name})
	}
	return out
}

func selector(in velero.ResourceSelector) item.Selector {
	return item.Selector{
		IncludedNamespaces: in.IncludedNamespaces, ExcludedNamespaces: in.ExcludedNamespaces,
		IncludedResources: in.IncludedResources, ExcludedResources: in.ExcludedResources, LabelSelector: in.LabelSelector,
	}
}

func progress(in velero.OperationProgress) item.Progress {
	return item.Progress{
		Completed: in.Completed, Err: in.Err, NCompleted: in.NCompleted, NTotal: in.NTotal,
		OperationUnits: in.OperationUnits, Description: in.Description, Started: in.Started, Updated: in.Updated,
		DataCaptured: true, // it reports progress
	}
}

// silent is the logger of actions that are called directly.
func silent() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}
