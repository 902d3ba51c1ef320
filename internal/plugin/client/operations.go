// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// OperationRef identifies an operation that an action started.
type OperationRef struct {
	// OperationID is the ID that the action returned.
	OperationID string
	// Parent is the Backup or Restore as JSON, in the form of velero.io/v1.
	Parent []byte
}

// ErrUnknownOperation matches the error of Progress and Cancel if the action does not know
// the operation. Retrying does not help.
var ErrUnknownOperation = errors.New("the action does not know the operation")

// ErrOperationsUnsupported is the error of Progress for a version that cannot start
// operations. It matches ErrUnknownOperation: an earlier release of the plugin started the
// operation.
var ErrOperationsUnsupported = fmt.Errorf("this version of the action starts no operations: %w", ErrUnknownOperation)

// Operations makes calls for the operations that an action started.
type Operations interface {
	// Progress returns the progress of an operation. Cancelled is only set for a completed
	// operation, and never by versions that use Velero's messages.
	Progress(ctx context.Context, call ItemCall, op OperationRef) (item.Progress, error)
	// Cancel requests the cancellation of an operation.
	Cancel(ctx context.Context, call ItemCall, op OperationRef) error
}

// UnknownOperationError is an error of Progress or Cancel that matches
// ErrUnknownOperation.
type UnknownOperationError struct {
	// Err is the gRPC status that the plugin returned.
	Err error
}

// Error returns the message of the plugin.
func (e *UnknownOperationError) Error() string {
	return cmp.Or(status.Convert(e.Err).Message(), "it does not know the operation")
}

// Is makes it match ErrUnknownOperation.
func (e *UnknownOperationError) Is(target error) bool { return target == ErrUnknownOperation }

// Unwrap returns the status of the plugin.
func (e *UnknownOperationError) Unwrap() error { return e.Err }

// wrapUnknownOperation wraps an error of Progress or Cancel that says that the action does not
// know the operation. It is only for these two calls: NotFound of another call does not concern
// an operation. NotFound cannot mean a missing action either, because only actions that the
// process listed are called. For Velero's framework, which might return it, WarmUpHandlers has
// called each action.
func wrapUnknownOperation(op OperationRef, err error) error {
	if err == nil || !isUnknownOperationStatus(op.OperationID, status.Convert(err)) {
		return err
	}
	return &UnknownOperationError{Err: err}
}

// isUnknownOperationStatus reports whether a status means an unknown operation. The texts are those
// of Velero's package for plugin authors, whose framework sends every error of an action with the
// same code.
func isUnknownOperationStatus(id string, s *status.Status) bool {
	switch s.Code() {
	case codes.NotFound:
		return true
	case codes.Unknown:
		// Older releases capitalize the first letter.
		return strings.Contains(s.Message(), "peration ID "+id+" is invalid") ||
			strings.Contains(s.Message(), "Plugin does not support asynchronous operations")
	default:
		return false
	}
}

// unsupportedOperations is for versions that cannot start operations.
type unsupportedOperations struct{}

// Progress returns ErrOperationsUnsupported.
func (unsupportedOperations) Progress(context.Context, ItemCall, OperationRef) (item.Progress, error) {
	return item.Progress{}, ErrOperationsUnsupported
}

// Cancel does nothing: there is no operation to cancel.
func (unsupportedOperations) Cancel(context.Context, ItemCall, OperationRef) error {
	return nil
}
