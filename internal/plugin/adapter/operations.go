// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// OperationRef names something that an action started.
type OperationRef struct {
	// OperationID is what the action called it.
	OperationID string
	// Parent is the Backup or Restore as JSON, in the form of velero.io/v1.
	Parent []byte
}

// ErrUnknownOperation matches the error of Progress and Cancel if the action says that it
// does not know the operation. To ask again will not help.
var ErrUnknownOperation = errors.New("the action does not know the operation")

// ErrOperationsUnsupported is the answer of a version that cannot start operations when it is
// asked about one. It matches ErrUnknownOperation: the operation is one that an earlier
// release of the plugin started.
var ErrOperationsUnsupported = fmt.Errorf("this version of the action starts no operations: %w", ErrUnknownOperation)

// Operations asks about what an action started.
type Operations interface {
	// Progress tells how far an operation is. Cancelled is only set of one that is
	// completed, and never by versions whose messages are Velero's.
	Progress(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, op OperationRef) (item.Progress, error)
	// Cancel asks for its end.
	Cancel(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, op OperationRef) error
}

// UnknownOperationError is an error of Progress or Cancel that matches
// ErrUnknownOperation.
type UnknownOperationError struct {
	// Err is what the plugin said, a status of gRPC.
	Err error
}

// Error returns what the plugin said.
func (e *UnknownOperationError) Error() string {
	return cmp.Or(status.Convert(e.Err).Message(), "it does not know the operation")
}

// Is makes it match ErrUnknownOperation.
func (e *UnknownOperationError) Is(target error) bool { return target == ErrUnknownOperation }

// Unwrap returns what the plugin said.
func (e *UnknownOperationError) Unwrap() error { return e.Err }

// wrapUnknownOperation finds out whether an error of Progress or Cancel says that the action does
// not know the operation. It is only for these two: NotFound of another call says nothing
// of an operation. Nor can it mean that there is no such action, for only those are called
// that the process itself listed; of Velero's framework, which might answer so, Prime has
// called each.
func wrapUnknownOperation(op OperationRef, err error) error {
	if err == nil || !isUnknownOperationStatus(op.OperationID, status.Convert(err)) {
		return err
	}
	return &UnknownOperationError{Err: err}
}

// isUnknownOperationStatus reads an answer. The texts are those of Velero's package for authors, whose
// framework sends every error of an action with the same code.
func isUnknownOperationStatus(id string, s *status.Status) bool {
	switch s.Code() {
	case codes.NotFound:
		return true
	case codes.Unknown:
		// The first letter is a capital in its older releases.
		return strings.Contains(s.Message(), "peration ID "+id+" is invalid") ||
			strings.Contains(s.Message(), "Plugin does not support asynchronous operations")
	default:
		return false
	}
}

// unsupportedOperations is for versions that cannot start operations.
type unsupportedOperations struct{}

// Progress returns ErrOperationsUnsupported.
func (unsupportedOperations) Progress(context.Context, grpc.ClientConnInterface, ItemCall, OperationRef) (item.Progress, error) {
	return item.Progress{}, ErrOperationsUnsupported
}

// Cancel does nothing: there is nothing that could be cancelled.
func (unsupportedOperations) Cancel(context.Context, grpc.ClientConnInterface, ItemCall, OperationRef) error {
	return nil
}
