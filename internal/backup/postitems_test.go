// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

func TestListPostOperationItems(t *testing.T) {
	t.Parallel()
	databases := schema.GroupResource{Group: "example.io", Resource: "databases"}
	snapshot := velero.ResourceIdentifier{GroupResource: schema.GroupResource{Resource: "snapshots"}, Namespace: "shop", Name: "one"}
	operation := func(kind string, resource schema.GroupResource, name string, phase velero.OperationPhase) velero.Operation {
		return velero.Operation{
			Kind: kind, Phase: phase, PostItems: []velero.ResourceIdentifier{snapshot},
			Object: velero.ResourceIdentifier{GroupResource: resource, Namespace: "shop", Name: name},
		}
	}
	got := listPostOperationItems([]velero.Operation{
		operation(asyncActionKind, persistentVolumeClaims, "captured", velero.OperationCompleted),
		operation(asyncActionKind, databases, "captured", velero.OperationCompleted), // requests the same object
		operation(asyncActionKind, persistentVolumeClaims, "failed", velero.OperationFailed),
		operation(asyncActionKind, persistentVolumeClaims, "canceled", velero.OperationCancelled),
		operation(asyncActionKind, databases, "failed", velero.OperationFailed),
		operation("BackupItemAction", persistentVolumeClaims, "of-velero", velero.OperationFailed), // would be started again
	})
	want := []itemaction.RelatedItem{
		{Resource: snapshot.GroupResource, Namespace: "shop", Name: "one"},
		{Resource: persistentVolumeClaims, Namespace: "shop", Name: "failed"},
		{Resource: persistentVolumeClaims, Namespace: "shop", Name: "canceled"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected (-want +got):\n%s", diff)
	}
}
