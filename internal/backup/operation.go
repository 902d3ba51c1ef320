// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/kube/list"
)

// operationCallbackTimeout is how long Request.Started may take.
const operationCallbackTimeout = 30 * time.Second

var (
	// errOperationsUnsupported is why operations of a run without Request.Started are canceled.
	errOperationsUnsupported = errors.New("this run does not wait for operations")
	// errOperationsEnded is that of a run with Request.Only.
	errOperationsEnded = errors.New("the operations of this backup have ended, and no more are waited for")
	// errCancelUnsupported is why operations of some actions cannot be canceled.
	errCancelUnsupported = errors.New("the action has no way to cancel it")
)

// Operation is something that an item action started and that goes on after the
// archive is written.
type Operation struct {
	// Action is the item action's name, Kind its kind and Plugin the plugin's; the latter
	// are empty for an action of Grapnel itself.
	Action, Kind, Plugin string
	// Resource, Namespace and Name are those of the object it is about.
	Resource        schema.GroupVersionResource
	Namespace, Name string
	// ID is the action's name for it. An action may say the same one of many objects.
	ID string
	// PostItems are objects to be archived, again if need be, when it has ended.
	PostItems []itemaction.RelatedItem
	// PollInterval is how often the action wants to be asked how far it is; zero leaves
	// that to whoever asks.
	PollInterval time.Duration
}

// recordOrCancelOperation has an operation recorded, at once and even if the run has ended meanwhile:
// from then on somebody waits for its end. One that is not recorded is canceled, and the
// error says what became of it.
func (c *collection) recordOrCancelOperation(ctx context.Context, s *resourceAction, item *list.Item, told itemaction.StartedOperation) error {
	op := Operation{
		Action: s.Name(), Resource: c.resource.GVR, Namespace: item.Namespace, Name: item.Name,
		ID: told.ID, PostItems: told.PostOperationItems, PollInterval: told.PollInterval,
	}
	if s.external != nil {
		op.Plugin, op.Kind = s.external.Plugin(), s.external.Kind()
	}
	err := c.notifyOperationStarted(ctx, op)
	if err == nil {
		c.reports.addOperation(op)
		logr.FromContextOrDiscard(ctx).Info("An item action started an operation", "resource", c.resource.GroupResource().String(),
			"name", item.Key, "action", op.Action, "plugin", op.Plugin, "operation", fmt.Sprintf("%.100s", op.ID))
		return nil
	}
	err = fmt.Errorf("the operation %.100q was started and could not be recorded: %w", op.ID, err)
	cancelErr := errCancelUnsupported
	if told.Cancel != nil {
		cancelErr = told.Cancel(context.WithoutCancel(ctx))
	}
	if cancelErr != nil {
		return fmt.Errorf("%w; and it could not be canceled and may still be running: %w", err, cancelErr)
	}
	return fmt.Errorf("%w; it was canceled", err)
}

// notifyOperationStarted tells the caller of the run of an operation.
func (r *enginePass) notifyOperationStarted(ctx context.Context, op Operation) error {
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
