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

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// operationCallbackTimeout is how long Request.Started may take, also when the run has ended.
const operationCallbackTimeout = 30 * time.Second

// Operation is what an action started for one object and what goes on by itself.
type Operation struct {
	// Action is the name of the action, and ID what it calls the operation.
	Action, ID string
	// Kind and Plugin are those of the action.
	Kind, Plugin string
	// Resource, Namespace and Name are those of the object, in the cluster; of one that
	// was converted the Resource is that of the archive.
	Resource        schema.GroupResource
	Namespace, Name string
	// PollInterval is how often the action wants to be asked how far it is; zero
	// leaves that to whoever asks.
	PollInterval time.Duration
}

// operationList collects what actions started and what was recorded. It is safe for
// concurrent use.
type operationList struct {
	mu       sync.Mutex
	recorded []Operation
}

func (o *operationList) addOperation(op Operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recorded = append(o.recorded, op)
}

// sortedOperations is called when nothing is restored any more.
func (o *operationList) sortedOperations() []Operation {
	return slices.SortedFunc(slices.Values(o.recorded), func(a, b Operation) int {
		return cmp.Or(
			strings.Compare(a.Action, b.Action), strings.Compare(a.Resource.String(), b.Resource.String()),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID),
		)
	})
}

// errOperationsUnsupported is why an operation of a run without Request.Started is canceled.
var errOperationsUnsupported = errors.New("this run does not wait for operations")

// recordOrCancelOperation has an operation recorded that an action started for an object. One that
// nobody would ask for is canceled, and an error of the object. That is told at once:
// the object may not be told of, because the run is interrupted.
func (r *enginePass) recordOrCancelOperation(ctx context.Context, it *item, action *pluginAction, started *restoreaction.StartedOperation) {
	if started == nil {
		return
	}
	op := Operation{
		Action: action.Name(), ID: started.ID, Kind: action.Kind(), Plugin: action.Plugin(),
		Resource: it.kind.resource, Namespace: it.target.Namespace, Name: it.target.Name, PollInterval: started.PollInterval,
	}
	log := loggerFrom(ctx).WithValues("action", op.Action, "plugin", op.Plugin, "operation", fmt.Sprintf("%.100q", op.ID), "item", it.displayName())
	err := r.notifyOperationStarted(ctx, op)
	if err == nil {
		log.Info("An action started an operation")
		r.operations.addOperation(op)
		return
	}
	err = cancelOperation(ctx, started, fmt.Errorf("restore action %s: the operation %.100q was started and could not be recorded: %w",
		op.Action, op.ID, err))
	log.Error(err, "An operation was not recorded")
	r.results.Error(results.ObjectScope(it.listEntry.namespace), explainError(it.displayName(), err))
}

// cancelRefusedOperation cancels the operation, if there is one, of an answer that is refused for a
// reason, which it returns with what became of the operation.
func cancelRefusedOperation(ctx context.Context, started *restoreaction.StartedOperation, reason error) error {
	if started == nil {
		return reason
	}
	return cancelOperation(ctx, started, fmt.Errorf("%w; it started the operation %.100q", reason, started.ID))
}

// notifyOperationStarted calls Request.Started, which must come to its end although the run is
// interrupted.
func (r *enginePass) notifyOperationStarted(ctx context.Context, op Operation) error {
	if r.req.OnOperationStarted == nil {
		return errOperationsUnsupported
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationCallbackTimeout)
	defer cancel()
	return r.req.OnOperationStarted(ctx, op)
}

// cancelOperation cancels an operation for a reason, which it returns with what the action
// said to that.
func cancelOperation(ctx context.Context, started *restoreaction.StartedOperation, reason error) error {
	if started.Cancel == nil {
		return fmt.Errorf("%w; it could not be canceled and may still be running: the action has no way to do that", reason)
	}
	if err := started.Cancel(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("%w; it could not be canceled and may still be running: %w", reason, err)
	}
	return fmt.Errorf("%w; it was canceled", reason)
}
