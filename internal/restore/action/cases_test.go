// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// Case is one object for an action.
type Case struct {
	// Resource of the object.
	Resource schema.GroupVersionResource
	// Archived is the JSON of the object.
	Archived string
	// Restore is the context. Its functions are derived from InArchive and WithData.
	Restore itemaction.RestoreContext
	// InArchive lists further objects in the archive.
	InArchive []itemaction.RelatedItem
	// WithData lists the claims, as namespace/name, whose data the backup contains.
	WithData []string

	// ArchivedVolumes is the JSON of PersistentVolumes in the archive.
	ArchivedVolumes []string

	// Want is the JSON of the object to be created, without the labels that every restored
	// object gets. It is ignored for a skipped object.
	Want string
	// Result is the expected result.
	Result itemaction.Result
}

// RunCases runs the cases.
func RunCases(t *testing.T, action itemaction.RestoreAction, cases map[string]Case) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if !action.AppliesTo(tc.Resource.GroupResource()) {
				t.Fatalf("the action does not apply to %s", tc.Resource)
			}
			tc.checkResult(t, action)
			for path, object := range malformedCopies(ParseObject(t, tc.Archived).Object) {
				tc.checkNoPanic(t, action, path, object)
			}
		})
	}
}

func (tc Case) checkResult(t *testing.T, action itemaction.RestoreAction) {
	t.Helper()
	item, err := tc.newRestoreItem(ParseObject(t, tc.Archived))
	if err != nil {
		t.Fatal(err)
	}
	result, err := action.Execute(t.Context(), item)
	if diff := cmp.Diff(ParseObject(t, tc.Archived), item.Archived); diff != "" {
		t.Errorf("the archived object was changed (-before +after):\n%s", diff)
	}
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if diff := cmp.Diff(tc.Result, result, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if tc.Result.Skip != "" {
		return
	}
	field := []string{"metadata", "labels"}
	unstructured.RemoveNestedField(item.Object.Object, append(field, LabelBackupName)...)
	unstructured.RemoveNestedField(item.Object.Object, append(field, LabelRestoreName)...)
	if len(item.Object.GetLabels()) == 0 {
		unstructured.RemoveNestedField(item.Object.Object, field...)
	}
	if diff := cmp.Diff(ParseObject(t, tc.Want), item.Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// checkNoPanic runs the action with an object that no API server would store.
func (tc Case) checkNoPanic(t *testing.T, action itemaction.RestoreAction, what string, object map[string]any) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("with %s: panic: %v", what, r)
		}
	}()
	item, err := tc.newRestoreItem(&unstructured.Unstructured{Object: object})
	if err != nil {
		return // rejected before the action gets it
	}
	// An error is acceptable here.
	_, _ = action.Execute(t.Context(), item)
}

func (tc Case) newRestoreItem(archived *unstructured.Unstructured) (*itemaction.RestoreItem, error) {
	run := tc.Restore
	run.BackupName, run.RestoreName = "backup", "restore"
	run.IsArchived = func(resource schema.GroupResource, namespace, name string) bool {
		return slices.Contains(tc.InArchive, itemaction.RelatedItem{Resource: resource, Namespace: namespace, Name: name})
	}
	run.ReadArchived = func(_ schema.GroupResource, _, name string) map[string]any {
		for _, text := range tc.ArchivedVolumes {
			if volume := parseJSON(text); Get[string](volume, "metadata", "name") == name {
				return volume
			}
		}
		return nil
	}
	run.HasVolumeData = func(namespace, claim string) bool {
		return slices.Contains(tc.WithData, namespace+"/"+claim)
	}
	object, err := CopyForRestore(archived, RestoreNames{Backup: run.BackupName, Restore: run.RestoreName})
	if err != nil {
		return nil, err
	}
	if namespace := object.GetNamespace(); namespace != "" {
		object.SetNamespace(run.MapNamespace(namespace))
	}
	if tc.Resource.Resource == "namespaces" {
		object.SetName(run.MapNamespace(object.GetName()))
	}
	return &itemaction.RestoreItem{Resource: tc.Resource, Object: object, Archived: archived, Restore: &run}, nil
}

// parseJSON decodes JSON, or returns nil.
func parseJSON(text string) map[string]any {
	object := map[string]any{}
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return nil
	}
	return object
}

// ParseObject decodes JSON.
func ParseObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{}
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return &unstructured.Unstructured{Object: object}
}

// malformedCopies returns copies of an object with one value of another type each, by a
// description of the change.
func malformedCopies(object map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, wrong := range []any{nil, "text", int64(7), true, []any{}, []any{"text", nil}, map[string]any{}} {
		// Iteration n replaces the value with index n.
		for n := 0; ; n++ {
			copied := runtime.DeepCopyJSON(object)
			left := n
			if !replaceValue(copied, wrong, &left) {
				break
			}
			all[fmt.Sprintf("%#v as value %d", wrong, n)] = copied
		}
	}
	return all
}

// replaceValue replaces the value with index n in a fixed order.
func replaceValue(value, wrong any, n *int) bool {
	switch value := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(value))
		for key := range value {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if *n == 0 {
				value[key] = wrong
				return true
			}
			*n--
			if replaceValue(value[key], wrong, n) {
				return true
			}
		}
	case []any:
		for i := range value {
			if *n == 0 {
				value[i] = wrong
				return true
			}
			*n--
			if replaceValue(value[i], wrong, n) {
				return true
			}
		}
	}
	return false
}
