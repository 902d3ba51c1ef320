// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// claimResource is the resource whose data actions capture.
var claimResource = schema.GroupResource{Resource: "persistentvolumeclaims"}

// captureCheckID is the ID of the operation that a capture check returns for data that would be
// captured.
const captureCheckID = "would be captured"

// captureCheck is an action in a run that only determines which data would be captured. It changes
// nothing and starts nothing.
type captureCheck struct{ *backupItemAction }

// NewCaptureCheck returns an action that, for a claim, returns an Operation if the action of the spec
// would capture its data, and otherwise the reason as DataNotCaptured. It makes no call. The caller
// accepts the Operation and does not track it.
//
// An AsyncBackupItemAction without a CaptureChecker counts as capturing every claim it applies to.
// So does version 2 of a BackupItemAction that names claims in its selector, as Velero's plugins for
// volumes do; one that applies to everything does something else.
func NewCaptureCheck(spec BackupItemActionSpec, run BackupRun, redactor *redact.Redactor) itemaction.BackupPluginAction {
	return &captureCheck{&backupItemAction{ItemAction: NewItemAction(spec, run.Key, redactor), backup: run.Backup}}
}

// AppliesTo reports whether the check handles a resource: it must be that of claims.
func (c *captureCheck) AppliesTo(resource schema.GroupResource) bool {
	return resource == claimResource && c.backupItemAction.AppliesTo(resource)
}

// Execute implements itemaction.BackupAction.
func (c *captureCheck) Execute(ctx context.Context, claim itemaction.BackupItem) (itemaction.Result, error) {
	captures, notCaptured, err := c.checkCapture(ctx, claim)
	switch {
	case err != nil && c.ShouldIgnoreFailure() && IsUnanswered(err) && ctx.Err() == nil:
		return itemaction.Result{DataNotCaptured: c.WrapPluginError(err).Error()}, nil
	case err != nil:
		return itemaction.Result{}, c.WrapPluginError(err)
	case captures:
		return itemaction.Result{Operation: &itemaction.Operation{ID: captureCheckID}}, nil
	}
	return itemaction.Result{DataNotCaptured: c.RedactLine(notCaptured)}, nil
}

func (c *captureCheck) checkCapture(ctx context.Context, claim itemaction.BackupItem) (captures bool, notCaptured string, err error) {
	ctx, call, err := c.BeginForItem(ctx, backupItemKey(claim))
	if err != nil {
		return false, "", err
	}
	defer call.End(&err)
	switch version := call.Version.(type) {
	case CaptureChecker:
		notCaptured, err = version.CheckCapture(ctx, call.ItemCall, claim.JSON, c.backup)
		return notCaptured == "" && err == nil, notCaptured, err
	case backupItemActionV2:
		return !c.filter.resources.include.IsEmpty(), "", nil
	}
	return false, "", nil
}
