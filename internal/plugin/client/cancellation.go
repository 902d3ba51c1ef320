// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// CancelTimeout bounds the call that cancels an operation.
const CancelTimeout = 30 * time.Second

// cancelOperation requests that the action end an operation that it started. About names
// the operation in the log. An operation must not continue after its run has ended or after
// the action was given up: the call is made in any case, and bounded by CancelTimeout
// instead of ctx. A nil error means that the action acknowledged the request, not that the
// operation has ended. The error is for WrapPluginError.
func (a *ItemAction[A]) cancelOperation(ctx context.Context, about string, op OperationRef) (err error) {
	ctx, call, err := a.begin(context.WithoutCancel(ctx), about, CancelTimeout)
	if err != nil {
		return err
	}
	defer call.End(&err)
	operations, ok := any(call.Version).(Operations)
	if !ok {
		return ErrOperationsUnsupported
	}
	return operations.Cancel(ctx, call.ItemCall, op)
}

// CancelRejectedOperation cancels an operation of an answer that was rejected because of
// err, because no run would wait for it. It returns an error for WrapPluginError that wraps
// err and has the result of the cancellation. For an answer without an operation, whose ID
// is empty, it returns err unchanged.
func (a *ItemAction[A]) CancelRejectedOperation(ctx context.Context, about string, op OperationRef, err error) error {
	if op.OperationID == "" {
		return err
	}
	if cancelErr := a.cancelOperation(ctx, about, op); cancelErr != nil {
		return fmt.Errorf("%w; it had started the operation %.100q, which could not be canceled and may still be running: %s",
			err, op.OperationID, cancelErr.Error())
	}
	return fmt.Errorf("%w; it had started the operation %.100q, which was canceled", err, op.OperationID)
}

// newOperation returns the operation of an answer, nil if there is none.
func newOperation(id string, poll time.Duration) *itemaction.Operation {
	if id == "" {
		return nil
	}
	return &itemaction.Operation{ID: id, PollInterval: poll}
}
