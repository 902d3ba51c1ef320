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

// begin starts the operation that the annotation of an object asks for. The ID is empty
// if there is none.
func (o *operations) begin(ctx context.Context, run string, object *unstructured.Unstructured) (string, program, error) {
	text := object.GetAnnotations()[annotationOperation]
	p := parseProgram(text)
	sdk.Logger(ctx).Info("Looking at an object", "object", object.GetName(), "operation", text)
	switch {
	case text == "":
		return "", p, nil
	case p.has("refuse"):
		return "", p, errors.New(p["refuse"])
	}
	id, err := o.start(run, object.GetNamespace(), object.GetName(), p)
	return id, p, err
}

// of returns the object of the same namespace that a part of the program names.
func (p program) of(object *unstructured.Unstructured, part, resource string) []item.Ref {
	if !p.has(part) {
		return nil
	}
	return []item.Ref{{Resource: resource, Namespace: object.GetNamespace(), Name: p[part]}}
}

// asyncBackupAction is the side of a backup.
type asyncBackupAction struct {
	itemAction
	*operations
}

// Start starts what the object asks for.
func (a asyncBackupAction) Start(ctx context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	id, p, err := a.begin(ctx, req.Backup.UID, req.Item)
	return &asyncbackupitemv1.Started{
		BackupResponse: item.BackupResponse{AdditionalItems: p.of(req.Item, "additional", "secrets")},
		OperationID:    id, PostOperationItems: p.of(req.Item, "post", "configmaps"), PollInterval: p.interval(),
	}, err
}

// Progress asks the operation.
func (a asyncBackupAction) Progress(ctx context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	return a.progress(ctx, req.OperationID)
}

// Cancel asks the operation to end.
func (a asyncBackupAction) Cancel(ctx context.Context, req *asyncbackupitemv1.OperationRequest) error {
	return a.cancel(ctx, req.OperationID)
}

// asyncRestoreAction is the side of a restore.
type asyncRestoreAction struct {
	itemAction
	*operations
}

// Start starts what the object asks for.
func (a asyncRestoreAction) Start(ctx context.Context, req *item.RestoreRequest) (*asyncrestoreitemv1.Started, error) {
	id, p, err := a.begin(ctx, req.Restore.UID, req.Item)
	return &asyncrestoreitemv1.Started{
		RestoreResponse: item.RestoreResponse{AdditionalItems: p.of(req.Item, "additional", "secrets")},
		OperationID:     id, PollInterval: p.interval(),
	}, err
}

// Progress asks the operation.
func (a asyncRestoreAction) Progress(ctx context.Context, req *asyncrestoreitemv1.OperationRequest) (*item.Progress, error) {
	return a.progress(ctx, req.OperationID)
}

// Cancel asks the operation to end.
func (a asyncRestoreAction) Cancel(ctx context.Context, req *asyncrestoreitemv1.OperationRequest) error {
	return a.cancel(ctx, req.OperationID)
}

// AreAdditionalItemsReady says yes.
func (asyncRestoreAction) AreAdditionalItemsReady(context.Context, *asyncrestoreitemv1.ReadyRequest) (bool, error) {
	return true, nil
}
