// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func newStorageClassAction() StorageClassAction {
	return NewStorageClassAction(StorageClassChanges{ConfigMap: "classes", Names: map[string]string{"slow": "fast", "lost": "missing", "": "other"}},
		func(_ context.Context, class string) (bool, error) { return class == "fast", nil })
}

func TestStorageClassAction_Execute(t *testing.T) {
	claim := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	volume := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
	set := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	const other, none = `{"metadata":{"name":"a"},"spec":{"storageClassName":"other"}}`, `{"metadata":{"name":"a"},"spec":{}}`
	RunCases(t, newStorageClassAction(), map[string]Case{
		"a claim": {
			Resource: claim,
			Archived: `{"metadata":{"name":"a"},"spec":{"storageClassName":"slow"}}`, Want: `{"metadata":{"name":"a"},"spec":{"storageClassName":"fast"}}`,
		},
		"a claim of another class": {Resource: claim, Archived: other, Want: other},
		"a claim without a class":  {Resource: claim, Archived: none, Want: none},
		"a claim of no class":      {Resource: claim, Archived: `{"metadata":{"name":"a"},"spec":{"storageClassName":""}}`, Want: `{"metadata":{"name":"a"},"spec":{"storageClassName":""}}`},
		"a volume": {
			Resource: volume,
			Archived: `{"metadata":{"name":"a"},"spec":{"storageClassName":"slow"}}`, Want: `{"metadata":{"name":"a"},"spec":{"storageClassName":"fast"}}`,
		},
		"a StatefulSet": {
			Resource: set,
			Archived: `{"metadata":{"name":"a"},"spec":{"volumeClaimTemplates":[{"spec":{"storageClassName":"slow"}},{"spec":{"storageClassName":"other"}},{"spec":{}}]}}`,
			Want:     `{"metadata":{"name":"a"},"spec":{"volumeClaimTemplates":[{"spec":{"storageClassName":"fast"}},{"spec":{"storageClassName":"other"}},{"spec":{}}]}}`,
		},
	})
}

// TestStorageClassAction_Missing: an object is not created with a class that does not exist.
func TestStorageClassAction_Missing(t *testing.T) {
	for _, spec := range []string{`{"storageClassName":"lost"}`, `{"volumeClaimTemplates":[{"spec":{"storageClassName":"lost"}},{"spec":{"storageClassName":"slow"}}]}`} {
		object := ParseObject(t, `{"metadata":{"name":"a"},"spec":`+spec+`}`)
		_, err := newStorageClassAction().Execute(t.Context(), &itemaction.RestoreItem{Object: object})
		var refused *itemaction.CreationRefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), `ConfigMap classes changes its storage class lost to "missing", which does not exist`) {
			t.Errorf("%s: error %v", spec, err)
		}
	}
	broken := NewStorageClassAction(StorageClassChanges{Names: map[string]string{"slow": "fast"}}, func(context.Context, string) (bool, error) { return false, errors.New("no answer") })
	_, err := broken.Execute(t.Context(), &itemaction.RestoreItem{Object: ParseObject(t, `{"spec":{"storageClassName":"slow"}}`)})
	if err == nil || !strings.Contains(err.Error(), "reading StorageClass fast: no answer") {
		t.Errorf("error %v", err)
	}
}
