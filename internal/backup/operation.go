// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

const (
	// operationCallbackTimeout bounds OnOperationStarted.
	operationCallbackTimeout = 30 * time.Second
	// maxConcurrentRecordings is how many operations of a run are recorded at a time.
	maxConcurrentRecordings = 32
)

var (
	// errOperationsUnsupported is the reason to cancel operations of a run without
	// OnOperationStarted.
	errOperationsUnsupported = errors.New("this run does not wait for operations")
	// errOperationsEnded is the reason for a run with OnlyItems.
	errOperationsEnded = errors.New("the operations of this backup have ended, and it waits for no others")
	// errCancelUnsupported is the reason why operations of some actions cannot be canceled.
	errCancelUnsupported = errors.New("the action has no way to cancel it")
)

// recordOrCancelOperation records an operation, at once and even if the run has ended
// meanwhile: from then on it is tracked. An operation that cannot be recorded is canceled,
// and the error has the result of the cancellation.
func (c *collection) recordOrCancelOperation(ctx context.Context, s *resourceAction, item *rawclient.Item, op itemaction.Operation) error {
	op.Action, op.Resource, op.Namespace, op.Name = s.Name(), c.resource.GVR, item.Namespace, item.Name
	if s.external != nil {
		op.Plugin, op.Kind = s.external.Plugin(), s.external.Kind()
	}
	err := c.withoutActionSlot(s, func() error { return c.notifyOperationStarted(ctx, op) })
	if err == nil {
		c.reports.addOperation(op)
		logr.FromContextOrDiscard(ctx).Info("An item action started an operation", "resource", c.resource.GroupResource().String(),
			"name", item.Key, "action", op.Action, "plugin", op.Plugin, "operation", fmt.Sprintf("%.100s", op.ID))
		return nil
	}
	err = fmt.Errorf("the operation %.100q was started and could not be recorded: %w", op.ID, err)
	cancelErr := errCancelUnsupported
	if starter, ok := s.BackupAction.(itemaction.OperationStarter[itemaction.BackupItem]); ok {
		cancelErr = starter.CancelOperation(context.WithoutCancel(ctx), c.newActionItem(item), op.ID)
	}
	if cancelErr != nil {
		return fmt.Errorf("%w; and it could not be canceled and may still be running: %w", err, cancelErr)
	}
	return fmt.Errorf("%w; it was canceled", err)
}

// withoutActionSlot lets another object have the slot of this one for calls of plugins while work
// is done, of which maxConcurrentRecordings limits the number. Four slots would otherwise wait for
// the API server most of the time when an operation starts for each of thousands of objects.
func (r *enginePass) withoutActionSlot(s *resourceAction, work func() error) error {
	if s.external == nil {
		return work()
	}
	r.recordingSlots <- struct{}{}
	<-r.actionSlots
	defer func() { r.actionSlots <- struct{}{} }()
	defer func() { <-r.recordingSlots }()
	return work()
}

// notifyOperationStarted reports an operation to the caller of the run.
func (r *enginePass) notifyOperationStarted(ctx context.Context, op itemaction.Operation) error {
	switch {
	case r.req.hasOnlyItems():
		return errOperationsEnded
	case r.req.OnOperationStarted == nil:
		return errOperationsUnsupported
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationCallbackTimeout)
	defer cancel()
	return r.req.OnOperationStarted(ctx, op)
}
