// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
)

// CancelTimeout bounds the call that asks an action to end an operation.
const CancelTimeout = 30 * time.Second

// CancelOperation asks the action to end an operation that it started, which about names in the
// log. An operation must not go on because the run that wanted it has ended, or because
// the action was given up: the call is made all the same, and bounded by CancelTimeout
// instead of ctx. No error means that the action acknowledged it, not that the operation
// has ended. An error is for Explain.
func (a *Action[A]) CancelOperation(ctx context.Context, about string, op adapter.OperationRef) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CancelTimeout)
	defer cancel()
	return a.callPlugin(ctx, about, func(ctx context.Context, conn grpc.ClientConnInterface, call adapter.ItemCall, version A) error {
		operations, ok := any(version).(adapter.Operations)
		if !ok {
			return adapter.ErrOperationsUnsupported
		}
		return operations.Cancel(ctx, conn, call, op)
	})
}

// CancelRejectedOperation cancels an operation of an answer that is not accepted for the reason err, so
// that nobody would ask for its end. It returns an error for Explain that wraps err and
// also says what became of the operation. An answer without an operation, whose ID is
// empty, leaves err as it is.
func (a *Action[A]) CancelRejectedOperation(ctx context.Context, about string, op adapter.OperationRef, err error) error {
	if op.OperationID == "" {
		return err
	}
	if cancelErr := a.CancelOperation(ctx, about, op); cancelErr != nil {
		return fmt.Errorf("%w; it had started the operation %.100q, which could not be canceled and may go on: %s",
			err, op.OperationID, cancelErr.Error())
	}
	return fmt.Errorf("%w; it had started the operation %.100q, which was canceled", err, op.OperationID)
}
