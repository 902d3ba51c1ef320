// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// startForObject starts the operation that the annotation of an object requests. The ID is empty
// if there is none.
func (o *operations) startForObject(ctx context.Context, run string, object *unstructured.Unstructured) (string, operationProgram, error) {
	text := object.GetAnnotations()[annotationOperation]
	p := parseOperationProgram(text)
	sdk.Logger(ctx).Info("Looking at an object", "object", object.GetName(), "operation", text)
	switch {
	case text == "":
		return "", p, nil
	case p.hasInstruction("refuse"):
		return "", p, errors.New(p["refuse"])
	}
	id, err := o.startOperation(ctx, run, object.GetNamespace(), object.GetName(), p)
	return id, p, err
}

// relatedItems returns the object in the same namespace that a part of the program names.
func (p operationProgram) relatedItems(object *unstructured.Unstructured, part, resource string) []item.Ref {
	if !p.hasInstruction(part) {
		return nil
	}
	return []item.Ref{{Resource: resource, Namespace: object.GetNamespace(), Name: p[part]}}
}

// asyncBackupAction is the AsyncBackupItemAction.
type asyncBackupAction struct {
	itemAction
	*operations
}

// Start starts the operation that the object requests.
func (a asyncBackupAction) Start(ctx context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	id, p, err := a.startForObject(ctx, req.Backup.UID, req.Item)
	return &asyncbackupitemv1.Started{
		BackupResponse: item.BackupResponse{AdditionalItems: p.relatedItems(req.Item, "additional", "secrets")},
		OperationID:    id, PostOperationItems: p.relatedItems(req.Item, "post", "configmaps"), PollInterval: p.pollInterval(),
	}, err
}

// Progress polls the operation.
func (a asyncBackupAction) Progress(ctx context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	return a.pollOperation(ctx, req.OperationID)
}

// Cancel cancels the operation.
func (a asyncBackupAction) Cancel(ctx context.Context, req *asyncbackupitemv1.OperationRequest) error {
	return a.cancelOperation(ctx, req.OperationID)
}

// asyncRestoreAction is the AsyncRestoreItemAction.
type asyncRestoreAction struct {
	itemAction
	*operations
}

// Start starts the operation that the object requests.
func (a asyncRestoreAction) Start(ctx context.Context, req *item.RestoreRequest) (*asyncrestoreitemv1.Started, error) {
	id, p, err := a.startForObject(ctx, req.Restore.UID, req.Item)
	return &asyncrestoreitemv1.Started{
		RestoreResponse: item.RestoreResponse{AdditionalItems: p.relatedItems(req.Item, "additional", "secrets")},
		OperationID:     id, PollInterval: p.pollInterval(),
	}, err
}

// Progress polls the operation.
func (a asyncRestoreAction) Progress(ctx context.Context, req *asyncrestoreitemv1.OperationRequest) (*item.Progress, error) {
	return a.pollOperation(ctx, req.OperationID)
}

// Cancel cancels the operation.
func (a asyncRestoreAction) Cancel(ctx context.Context, req *asyncrestoreitemv1.OperationRequest) error {
	return a.cancelOperation(ctx, req.OperationID)
}

// AreAdditionalItemsReady returns true.
func (asyncRestoreAction) AreAdditionalItemsReady(context.Context, *asyncrestoreitemv1.ReadyRequest) (bool, error) {
	return true, nil
}
