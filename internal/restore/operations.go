// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// operationCallbackTimeout bounds Request.OnOperationStarted, also after the run has ended.
const operationCallbackTimeout = 30 * time.Second

// operationList collects the started and the recorded operations. It is safe for concurrent
// use.
type operationList struct {
	mu       sync.Mutex
	recorded []itemaction.Operation
}

func (o *operationList) addOperation(op itemaction.Operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recorded = append(o.recorded, op)
}

// sortedOperations must be called after everything is restored.
func (o *operationList) sortedOperations() []itemaction.Operation {
	return slices.SortedFunc(slices.Values(o.recorded), func(a, b itemaction.Operation) int {
		return cmp.Or(
			strings.Compare(a.Action, b.Action), strings.Compare(a.Resource.GroupResource().String(), b.Resource.GroupResource().String()),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID),
		)
	})
}

// errOperationsUnsupported is the reason to cancel an operation of a run without
// Request.OnOperationStarted.
var errOperationsUnsupported = errors.New("this run does not wait for operations")

// recordOrCancelOperation records an operation that an action started for an object. An
// operation that cannot be recorded is canceled, which is an error of the object. The error
// is reported at once: the object may not be reported if the run is interrupted.
func (r *enginePass) recordOrCancelOperation(ctx context.Context, it *item, action *pluginAction, started *itemaction.Operation) {
	if started == nil {
		return
	}
	it.hasOperation = true
	op := *started
	op.Kind, op.Action, op.Plugin = action.Kind(), action.Name(), action.Plugin()
	op.Resource, op.Namespace, op.Name = it.kind.resource.WithVersion(""), it.target.Namespace, it.target.Name
	log := loggerFrom(ctx).WithValues("action", op.Action, "plugin", op.Plugin, "operation", fmt.Sprintf("%.100q", op.ID), "item", it.displayName())
	err := r.notifyOperationStarted(ctx, op)
	if err == nil {
		log.Info("An action started an operation")
		r.operations.addOperation(op)
		return
	}
	err = cancelOperation(ctx, action, r.newActionItem(it), started.ID, fmt.Errorf("restore action %s: the operation %.100q was started and could not be recorded: %w",
		op.Action, op.ID, err))
	log.Error(err, "An operation was not recorded")
	r.results.Error(subjectOfTarget(it.target), results.ReasonItemActionFailed, explainError(it.displayName(), err))
}

// cancelRefusedOperation cancels the operation, if any, of a rejected answer. It returns
// the reason with the result of the cancellation.
func cancelRefusedOperation(
	ctx context.Context, action *pluginAction, shown *itemaction.RestoreItem, started *itemaction.Operation, reason error,
) error {
	if started == nil {
		return reason
	}
	return cancelOperation(ctx, action, shown, started.ID, fmt.Errorf("%w; it started the operation %.100q", reason, started.ID))
}

// notifyOperationStarted calls Request.OnOperationStarted, which must complete even if the
// run is interrupted.
func (r *enginePass) notifyOperationStarted(ctx context.Context, op itemaction.Operation) error {
	if r.req.OnOperationStarted == nil {
		return errOperationsUnsupported
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationCallbackTimeout)
	defer cancel()
	return r.req.OnOperationStarted(ctx, op)
}

// cancelOperation cancels an operation, and returns the reason with the result of the
// cancellation.
func cancelOperation(ctx context.Context, action *pluginAction, shown *itemaction.RestoreItem, id string, reason error) error {
	starter, ok := action.RestorePluginAction.(itemaction.OperationStarter[*itemaction.RestoreItem])
	if !ok {
		return fmt.Errorf("%w; it could not be canceled and may still be running: the action has no way to do that", reason)
	}
	if err := starter.CancelOperation(context.WithoutCancel(ctx), shown, id); err != nil {
		return fmt.Errorf("%w; it could not be canceled and may still be running: %w", reason, err)
	}
	return fmt.Errorf("%w; it was canceled", reason)
}
