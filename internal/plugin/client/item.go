// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// ItemCall has the common fields of all calls for an object.
type ItemCall struct {
	// Conn is the connection for the call.
	Conn grpc.ClientConnInterface
	// Action is the registered name of the action.
	Action string
	// CallID is the ID of the call, Key the UID of the run that it belongs to. Plugins
	// built with the SDK add them to their log.
	CallID, Key string
	// Parameters are what the user configured for the action.
	Parameters map[string]string
	// MaxResponseBytes limits the response; zero means the limit for one object.
	MaxResponseBytes int
}

// SelectorProvider requests the selector of an action.
type SelectorProvider interface {
	// AppliesTo makes one call.
	AppliesTo(ctx context.Context, call ItemCall) (item.Selector, error)
}

// BackupItemAction calls a BackupItemAction or an AsyncBackupItemAction. Errors are errors
// of gRPC, or a *ContractError if the response is not allowed by the version. Errors of
// Progress and Cancel may match ErrUnknownOperation.
type BackupItemAction interface {
	SelectorProvider
	// Execute, called Start for asynchronous actions, calls the action for one object, as JSON. The
	// Backup is also JSON, in the form of velero.io/v1.
	Execute(ctx context.Context, call ItemCall, object, backup []byte) (BackupItemAnswer, error)
	Operations
}

// BackupItemAnswer is the response of a BackupItemAction for one object. Only its size is
// validated. With a *ContractError it has the ID of the started operation, so that the
// caller can cancel it.
type BackupItemAnswer struct {
	// Item is the object as JSON; empty if the action returned none.
	Item []byte
	// RelatedItems are objects to archive too.
	RelatedItems []item.Ref
	// OperationID identifies the operation that was started, if any. PostOperationItems are
	// the objects to archive again when it has ended.
	OperationID        string
	PostOperationItems []item.Ref
	// PollInterval is the interval at which the action wants Progress to be called, zero if
	// unset. It is not negative and has no upper limit.
	PollInterval time.Duration
	// DataNotCaptured is why the data of the object is not captured, for a claim without an
	// operation; empty if unknown.
	DataNotCaptured string
}

// CaptureChecker calls an action that can tell before a backup which data it would capture.
type CaptureChecker interface {
	// CheckCapture returns why the data of an object, as JSON, would not be captured; "" if it
	// would be, or if the action cannot tell.
	CheckCapture(ctx context.Context, call ItemCall, object, backup []byte) (notCaptured string, err error)
}

// RestoreItemAction calls a RestoreItemAction or an AsyncRestoreItemAction. Errors are as
// for BackupItemAction.
type RestoreItemAction interface {
	SelectorProvider
	// Execute, called Start for asynchronous actions, calls the action for one object: as earlier
	// actions left it and as it was archived.
	Execute(ctx context.Context, call ItemCall, object RestoreItem) (RestoreItemAnswer, error)
	Operations
	// AreAdditionalItemsReady requests whether restored objects are ready.
	AreAdditionalItemsReady(ctx context.Context, call ItemCall, restored []item.Ref, restore []byte) (bool, error)
}

// RestoreItem is one object of a restore. All of it is JSON.
type RestoreItem struct {
	// Object is the object as earlier actions left it, Archived as it was archived.
	Object, Archived []byte
	// Restore is the Restore in the form of velero.io/v1.
	Restore []byte
}

// RestoreItemAnswer is the response of a RestoreItemAction for one object. Only its size is
// validated. With a *ContractError it is as for BackupItemAnswer.
type RestoreItemAnswer struct {
	// Item is the object as JSON; empty if the action returned none.
	Item []byte
	// Skip means that the object is not restored.
	Skip bool
	// RelatedItems are objects to restore first. With Wait, the object waits until they are
	// ready, at most for WaitTimeout; zero means the host's default.
	RelatedItems        []item.Ref
	WaitForRelatedItems bool
	WaitTimeout         time.Duration
	// OperationID identifies the operation that was started, if any. PollInterval is as in
	// BackupItemAnswer.
	OperationID  string
	PollInterval time.Duration
}

// DeleteItemAction calls a DeleteItemAction. Errors are as for BackupItemAction.
type DeleteItemAction interface {
	SelectorProvider
	// Execute calls the action for one object of a backup that is being deleted.
	Execute(ctx context.Context, call ItemCall, object, backup []byte) error
}

// ObjectStore calls an ObjectStore. Errors are as for BackupItemAction, and *CopyError for
// errors of the caller's readers and writers.
type ObjectStore interface {
	// Init configures the store. It precedes every other call to a process.
	Init(ctx context.Context, call ItemCall, config map[string]string) error
	// Put stores an object. If body or ctx ends with an error, nothing is stored.
	Put(ctx context.Context, call ItemCall, object StoredObject, body io.Reader) error
	// Exists reports whether an object exists.
	Exists(ctx context.Context, call ItemCall, object StoredObject) (bool, error)
	// Get writes an object to out.
	Get(ctx context.Context, call ItemCall, object StoredObject, out io.Writer) error
	// List returns the keys with a prefix or, with a delimiter, the common prefixes.
	List(ctx context.Context, call ItemCall, bucket, prefix, delimiter string) ([]string, error)
	// Delete removes an object.
	Delete(ctx context.Context, call ItemCall, object StoredObject) error
	// SignedURL returns a URL from which an object can be read for a limited time.
	SignedURL(ctx context.Context, call ItemCall, object StoredObject, ttl time.Duration) (string, error)
}

// StoredObject identifies an object in a bucket.
type StoredObject struct {
	// Bucket and Key are the names.
	Bucket, Key string
}

// CopyError means that the caller's reader or writer failed, not the plugin.
type CopyError struct {
	// Op says what failed: "reading the content for a/b".
	Op string
	// Err is the error of the reader or writer.
	Err error
}

// Error returns what failed and why.
func (e *CopyError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the error of the reader or writer.
func (e *CopyError) Unwrap() error { return e.Err }

// GRPCStatus prevents a status that the reader or writer got from another server from being
// treated as a status of the plugin.
func (e *CopyError) GRPCStatus() *status.Status { return status.New(codes.Unknown, e.Error()) }
