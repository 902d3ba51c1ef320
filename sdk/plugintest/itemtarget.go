// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk"
	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	deleteitemv1 "github.com/grapnel-dev/grapnel/sdk/deleteitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
	restoreitemv1 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v1"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
)

// The roles of objects that an action names.
const (
	additionalRefs    = "additional"
	postOperationRefs = "post-operation"
)

// itemTarget is an action on items of any kind and version.
type itemTarget interface {
	AppliesTo(ctx context.Context) (item.Selector, error)
	// executeActionOnItem calls the action for one object.
	executeActionOnItem(ctx context.Context, object *unstructured.Unstructured) (*itemAnswer, error)
}

// operationTarget is an itemTarget of a version that may start operations.
type operationTarget interface {
	getOperationProgress(ctx context.Context, operation string) (*item.Progress, error)
	cancelOperation(ctx context.Context, operation string) error
}

// asyncTarget is an operationTarget of an asynchronous kind. It is checked more strictly
// than Velero's kinds, whose contract leaves much open.
type asyncTarget interface {
	operationTarget
	isAsyncTarget()
}

// readinessTarget is an itemTarget of a version that may wait for additional items.
type readinessTarget interface {
	checkItemsReady(ctx context.Context, refs []item.Ref) error
}

// itemTargetFactories create the actions on items to check: every version that package
// serve registers has an entry.
func itemTargetFactories() map[sdk.Kind]map[string]func(p *Plugin, name string) itemTarget {
	return map[sdk.Kind]map[string]func(p *Plugin, name string) itemTarget{
		sdk.KindBackupItemAction: {
			sdk.V1: func(p *Plugin, name string) itemTarget { return backupTargetV1{p.BackupItemActionV1(name)} },
			sdk.V2: func(p *Plugin, name string) itemTarget { return backupTargetV2{p.BackupItemActionV2(name)} },
		},
		sdk.KindRestoreItemAction: {
			sdk.V1: func(p *Plugin, name string) itemTarget { return restoreTargetV1{p.RestoreItemActionV1(name)} },
			sdk.V2: func(p *Plugin, name string) itemTarget { return restoreTargetV2{p.RestoreItemActionV2(name)} },
		},
		sdk.KindAsyncBackupItemAction: {
			sdk.V1: func(p *Plugin, name string) itemTarget { return asyncBackupTargetV1{p.AsyncBackupItemActionV1(name)} },
		},
		sdk.KindAsyncRestoreItemAction: {
			sdk.V1: func(p *Plugin, name string) itemTarget { return asyncRestoreTargetV1{p.AsyncRestoreItemActionV1(name)} },
		},
		sdk.KindDeleteItemAction: {
			sdk.V1: func(p *Plugin, name string) itemTarget { return deleteTargetV1{p.DeleteItemActionV1(name)} },
		},
	}
}

// backupTargetV1 is version 1 of a BackupItemAction to check.
type backupTargetV1 struct{ backupitemv1.BackupItemAction }

func (b backupTargetV1) executeActionOnItem(ctx context.Context, object *unstructured.Unstructured) (*itemAnswer, error) {
	resp, err := b.Execute(ctx, NewBackupItemRequest(object))
	if err != nil {
		return nil, err
	}
	return newBackupAnswer(resp), nil
}

func newBackupAnswer(resp *item.BackupResponse) *itemAnswer {
	return &itemAnswer{
		Item: resp.Item, Labels: resp.BackupLabels, Refs: map[string][]item.Ref{additionalRefs: resp.AdditionalItems},
	}
}

// backupTargetV2 is version 2 of a BackupItemAction to check.
type backupTargetV2 struct{ backupitemv2.BackupItemAction }

func (b backupTargetV2) executeActionOnItem(ctx context.Context, object *unstructured.Unstructured) (*itemAnswer, error) {
	resp, err := b.Execute(ctx, NewBackupItemRequest(object))
	if err != nil {
		return nil, err
	}
	answer := newBackupAnswer(&resp.BackupResponse)
	answer.OperationID, answer.Refs[postOperationRefs] = resp.OperationID, resp.PostOperationItems
	return answer, nil
}

func (b backupTargetV2) newOperationRequest(id string) *backupitemv2.OperationRequest {
	return &backupitemv2.OperationRequest{OperationID: id, Backup: NewBackupItemRequest(nil).Backup}
}

func (b backupTargetV2) getOperationProgress(ctx context.Context, id string) (*item.Progress, error) {
	return b.Progress(ctx, b.newOperationRequest(id))
}

func (b backupTargetV2) cancelOperation(ctx context.Context, id string) error {
	return b.Cancel(ctx, b.newOperationRequest(id))
}

// restoreTargetV1 is version 1 of a RestoreItemAction to check.
type restoreTargetV1 struct {
	restoreitemv1.RestoreItemAction
}

func (r restoreTargetV1) executeActionOnItem(ctx context.Context, object *unstructured.Unstructured) (*itemAnswer, error) {
	resp, err := r.Execute(ctx, NewRestoreItemRequest(object))
	if err != nil {
		return nil, err
	}
	return newRestoreAnswer(resp), nil
}

func newRestoreAnswer(resp *item.RestoreResponse) *itemAnswer {
	return &itemAnswer{
		Item: resp.Item, Labels: resp.BackupLabels, SkipRestore: resp.SkipRestore, Converts: true,
		Refs: map[string][]item.Ref{additionalRefs: resp.AdditionalItems},
	}
}

// restoreTargetV2 is version 2 of a RestoreItemAction to check.
type restoreTargetV2 struct {
	restoreitemv2.RestoreItemAction
}

func (r restoreTargetV2) executeActionOnItem(ctx context.Context, object *unstructured.Unstructured) (*itemAnswer, error) {
	resp, err := r.Execute(ctx, NewRestoreItemRequest(object))
	if err != nil {
		return nil, err
	}
	answer := newRestoreAnswer(&resp.RestoreResponse)
	answer.OperationID, answer.WaitForAdditionalItems = resp.OperationID, resp.WaitForAdditionalItems
	return answer, nil
}

func (r restoreTargetV2) newOperationRequest(id string) *restoreitemv2.OperationRequest {
	return &restoreitemv2.OperationRequest{OperationID: id, Restore: NewRestoreItemRequest(nil).Restore}
}

func (r restoreTargetV2) getOperationProgress(ctx context.Context, id string) (*item.Progress, error) {
	return r.Progress(ctx, r.newOperationRequest(id))
}

func (r restoreTargetV2) cancelOperation(ctx context.Context, id string) error {
	return r.Cancel(ctx, r.newOperationRequest(id))
}

// checkItemsReady passes the items as Execute returned them, like the operator. The SDK maps them
// to their target namespaces.
func (r restoreTargetV2) checkItemsReady(ctx context.Context, refs []item.Ref) error {
	_, err := r.AreAdditionalItemsReady(ctx, &restoreitemv2.ReadyRequest{
		AdditionalItems: refs, Restore: NewRestoreItemRequest(nil).Restore,
	})
	return err
}

// deleteTargetV1 is version 1 of a DeleteItemAction to check. Calling it several times for
// one object also checks that missing data is not an error.
type deleteTargetV1 struct{ deleteitemv1.DeleteItemAction }

func (d deleteTargetV1) executeActionOnItem(ctx context.Context, object *unstructured.Unstructured) (*itemAnswer, error) {
	if err := d.Execute(ctx, NewDeleteItemRequest(object)); err != nil {
		return nil, err
	}
	return &itemAnswer{Item: object}, nil
}
