// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

const (
	// labelCopy with the value "true" requests copying the data of a claim.
	labelCopy = "example.io/copy-data"
	// annotationCopy on an archived claim has the UID of the Backup that copied its data.
	annotationCopy = "example.io/copied-by"
	// parameterRate is the parameter for the number of bytes copied per second.
	parameterRate = "bytesPerSecond"
)

// copyClaimSelector selects the claims for the actions that copy data.
func copyClaimSelector() item.Selector {
	return item.Selector{IncludedResources: []string{"persistentvolumeclaims"}, LabelSelector: labelCopy + "=true"}
}

// claimKey returns "namespace/name".
func claimKey(object *unstructured.Unstructured) string {
	return path.Join(object.GetNamespace(), object.GetName())
}

// parseRateParameter returns the rate limit of the Backup or Restore.
func parseRateParameter(ctx context.Context) (int64, error) {
	text := sdk.Parameters(ctx)[parameterRate]
	if text == "" {
		return 0, nil
	}
	rate, err := strconv.ParseInt(text, 10, 64)
	if err != nil || rate <= 0 {
		return 0, fmt.Errorf("the parameter %s must be a number like 1048576, it is %q", parameterRate, text)
	}
	return rate, nil
}

// copyOut is an AsyncBackupItemAction: it copies the data of a claim while the backup
// continues. The work runs in this process and ends with it.
type copyOut struct{ copies *copies }

// AppliesTo selects the claims whose data is copied.
func (copyOut) AppliesTo(context.Context) (item.Selector, error) { return copyClaimSelector(), nil }

// Start starts to copy the data of one claim, and records in the archived claim where the
// copy is, for the actions of restores and deletions. A second call starts another
// operation with another ID; the complete copy is moved to the same place.
func (c copyOut) Start(ctx context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	rate, err := parseRateParameter(ctx)
	if err != nil {
		return nil, err
	}
	claim := claimKey(req.Item)
	t := &transfer{
		id:   path.Join(req.Backup.UID, string(req.Item.GetUID()), rand.Text()),
		from: rootedDir{root: c.copies.data, name: claim}, to: rootedDir{root: c.copies.store, name: path.Join(req.Backup.UID, claim)},
		replace: true, rate: rate,
	}
	c.copies.startTransfer(ctx, t)
	sdk.Logger(ctx).Info("Started to copy the data of a claim", "claim", claim, "operation", t.id)
	annotations := req.Item.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationCopy] = req.Backup.UID
	req.Item.SetAnnotations(annotations)
	return &asyncbackupitemv1.Started{BackupResponse: item.BackupResponse{Item: req.Item}, OperationID: t.id}, nil
}

// Progress returns the progress of a copy.
func (c copyOut) Progress(_ context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	return c.copies.transferProgress(c.copies.store, req.OperationID)
}

// Cancel stops a copy.
func (c copyOut) Cancel(_ context.Context, req *asyncbackupitemv1.OperationRequest) error {
	return c.copies.cancelTransfer(c.copies.store, req.OperationID)
}

// copyBack is an AsyncRestoreItemAction: it copies the data of a claim back.
type copyBack struct{ copies *copies }

// AppliesTo selects the claims whose data was copied.
func (copyBack) AppliesTo(context.Context) (item.Selector, error) { return copyClaimSelector(), nil }

// Start starts to copy the data of one claim back, unless an earlier attempt of the same
// restore has done so. The archived claim only names the Backup that made the copy: a
// modified annotation must not lead to the data of another claim. The restored claim does
// not keep the annotation.
func (c copyBack) Start(ctx context.Context, req *item.RestoreRequest) (*asyncrestoreitemv1.Started, error) {
	backup := req.ItemFromBackup.GetAnnotations()[annotationCopy]
	if backup == "" {
		return nil, nil //nolint:nilnil // nothing is changed, nothing is started
	}
	unstructured.RemoveNestedField(req.Item.Object, "metadata", "annotations", annotationCopy)
	answer := &asyncrestoreitemv1.Started{RestoreResponse: item.RestoreResponse{Item: req.Item}}
	rate, err := parseRateParameter(ctx)
	if err != nil {
		return nil, err
	}
	claim, namespace := claimKey(req.ItemFromBackup), req.Item.GetNamespace()
	if mapped := req.Restore.NamespaceMapping[namespace]; mapped != "" {
		namespace = mapped
	}
	prefix := path.Join(req.Restore.UID, string(req.ItemFromBackup.GetUID())) + "/"
	if c.copies.hasSucceededTransfer(prefix) {
		sdk.Logger(ctx).Info("An earlier attempt already restored the data of the claim", "claim", claim)
		return answer, nil
	}
	t := &transfer{
		id:   prefix + rand.Text(),
		from: rootedDir{root: c.copies.store, name: path.Join(backup, claim)},
		to:   rootedDir{root: c.copies.data, name: path.Join(namespace, req.Item.GetName())},
		rate: rate,
	}
	c.copies.startTransfer(ctx, t)
	sdk.Logger(ctx).Info("Started to copy the data of a claim back", "claim", claim, "operation", t.id)
	answer.OperationID = t.id
	return answer, nil
}

// Progress returns the progress of a copy.
func (c copyBack) Progress(_ context.Context, req *asyncrestoreitemv1.OperationRequest) (*item.Progress, error) {
	return c.copies.transferProgress(c.copies.data, req.OperationID)
}

// Cancel stops a copy.
func (c copyBack) Cancel(_ context.Context, req *asyncrestoreitemv1.OperationRequest) error {
	return c.copies.cancelTransfer(c.copies.data, req.OperationID)
}

// AreAdditionalItemsReady is not called, because Start names no items.
func (copyBack) AreAdditionalItemsReady(context.Context, *asyncrestoreitemv1.ReadyRequest) (bool, error) {
	return true, nil
}

// removeCopy is a DeleteItemAction: when a backup is deleted, it removes the copies that
// copyOut made for it.
type removeCopy struct{ copies *copies }

// AppliesTo selects the claims whose data was copied.
func (removeCopy) AppliesTo(context.Context) (item.Selector, error) { return copyClaimSelector(), nil }

// Execute removes the copy of the data of one archived claim.
func (r removeCopy) Execute(_ context.Context, req *item.DeleteRequest) error {
	backup := req.Item.GetAnnotations()[annotationCopy]
	if backup == "" {
		return nil
	}
	return r.copies.removeClaimCopy(backup, claimKey(req.Item))
}
