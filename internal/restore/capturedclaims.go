// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

var claimResource = schema.GroupResource{Resource: "persistentvolumeclaims"}

// readCapturedClaims returns the claims whose data an operation of a backup captured; see
// Request.CapturedClaims. A backup without operations may have no file of them.
func readCapturedClaims(ctx context.Context, store *storage.Store, backup string) (map[types.NamespacedName]string, error) {
	var operations []velero.BackupOperation
	err := store.GetJSON(ctx, backup, storage.ItemOperations, &operations)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading which claims have their data in the backup: %w", err)
	}
	captured := map[types.NamespacedName]string{}
	for _, operation := range operations {
		object := operation.Spec.ResourceIdentifier
		if object.GroupResource == claimResource && operation.Status.Phase == velero.OperationCompleted {
			captured[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}] = operation.Spec.BackupItemAction
		}
	}
	return captured, nil
}

// refuseClaimWithoutData refuses to create a claim whose data is in the backup if no action has set
// the source of its data or started to restore it: it would get an empty volume.
func (r *enginePass) refuseClaimWithoutData(it *item) {
	name := types.NamespacedName{Namespace: it.archived.GetNamespace(), Name: it.archived.GetName()}
	by := r.req.CapturedClaims[name]
	if it.resource != claimResource || by == "" || it.hasOperation || r.req.DryRun || !action.IsClaimBound(it.archived.Object) {
		return
	}
	for _, field := range []string{"volumeName", "dataSource", "dataSourceRef"} {
		if action.Get[any](it.object.Object, "spec", field) != nil {
			return
		}
	}
	it.createErr = &itemaction.CreationRefusedError{Reason: fmt.Sprintf(
		"the backup has the data of this claim, which action %s captured, and no action restores it: install the Plugin of that action, "+
			"or end its suspension, and restore again", by)}
}
