// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// ItemCall is what every call about an object has.
type ItemCall struct {
	// Action is the registered name of the action.
	Action string
	// CallID of the call, and Key, the UID of the run that it belongs to. Plugins written
	// with the SDK put them into their log.
	CallID, Key string
	// Parameters are what the user configured for the action.
	Parameters map[string]string
}

// SelectorProvider asks an action which objects concern it.
type SelectorProvider interface {
	// AppliesTo makes one call.
	AppliesTo(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall) (item.Selector, error)
}

// BackupItemAction calls a BackupItemAction or an AsyncBackupItemAction. Errors are those
// of gRPC, a *ContractError if the answer is not one that the version allows, or of
// Progress and Cancel one that matches ErrUnknownOperation.
type BackupItemAction interface {
	SelectorProvider
	// Execute, which asynchronous actions call Start, shows one object, as JSON. The Backup is JSON too, in the form of
	// velero.io/v1.
	Execute(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object, backup []byte) (BackupItemAnswer, error)
	Operations
}

// BackupItemAnswer is what a BackupItemAction made of an object. Nothing of it is
// checked but its size. With a *ContractError it has the ID of what was started, so that
// this can be cancelled.
type BackupItemAnswer struct {
	// Item is the object as JSON; empty if the action returned none.
	Item []byte
	// RelatedItems are objects to be archived too.
	RelatedItems []item.Ref
	// OperationID names what was started, if anything was, and PostOperationItems the
	// objects to be archived again when it has ended.
	OperationID        string
	PostOperationItems []item.Ref
	// PollInterval is how often the action wants to be asked for the progress, zero if it
	// does not say. It is not negative and may be of any size.
	PollInterval time.Duration
}

// RestoreItemAction calls a RestoreItemAction or an AsyncRestoreItemAction. Errors are as
// for BackupItemAction.
type RestoreItemAction interface {
	SelectorProvider
	// Execute, which asynchronous actions call Start, shows one object as earlier actions left it and as it was archived.
	Execute(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object RestoreItem) (RestoreItemAnswer, error)
	Operations
	// AreAdditionalItemsReady asks whether restored objects are ready.
	AreAdditionalItemsReady(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, restored []item.Ref, restore []byte) (bool, error)
}

// RestoreItem is one object of a restore. All of it is JSON.
type RestoreItem struct {
	// Object as earlier actions left it, and Archived as it was archived.
	Object, Archived []byte
	// Restore is the Restore in the form of velero.io/v1.
	Restore []byte
}

// RestoreItemAnswer is what a RestoreItemAction made of an object. Nothing of it is
// checked but its size. With a *ContractError it is as for BackupItemAnswer.
type RestoreItemAnswer struct {
	// Item is the object as JSON; empty if the action returned none.
	Item []byte
	// Skip leaves the object out.
	Skip bool
	// RelatedItems are objects to be restored first. With Wait the object waits until
	// they are ready, for WaitTimeout at most; zero means the host's default.
	RelatedItems        []item.Ref
	WaitForRelatedItems bool
	WaitTimeout         time.Duration
	// OperationID names what was started, if anything was, and PollInterval is as in
	// BackupItemAnswer.
	OperationID  string
	PollInterval time.Duration
}

// DeleteItemAction calls a DeleteItemAction. Errors are as for BackupItemAction.
type DeleteItemAction interface {
	SelectorProvider
	// Execute shows one object of a backup that is being deleted.
	Execute(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object, backup []byte) error
}

// ObjectStore calls an ObjectStore. Errors are as for BackupItemAction, and *CopyError
// for those of readers and writers that are handed in.
type ObjectStore interface {
	// Init configures the store. It comes before every other call to a process.
	Init(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, config map[string]string) error
	// Put stores an object. If body or ctx ends with an error, nothing is stored.
	Put(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object StoredObject, body io.Reader) error
	// Exists says whether there is an object.
	Exists(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object StoredObject) (bool, error)
	// Get writes an object to out.
	Get(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object StoredObject, out io.Writer) error
	// List returns the keys with a prefix, or with a delimiter the common prefixes.
	List(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, bucket, prefix, delimiter string) ([]string, error)
	// Delete removes an object.
	Delete(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object StoredObject) error
	// SignedURL returns a URL from which an object can be read for a time.
	SignedURL(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall, object StoredObject, ttl time.Duration) (string, error)
}

// StoredObject names an object in a bucket.
type StoredObject struct {
	// Bucket and Key are the names.
	Bucket, Key string
}

// CopyError says that a reader or writer that was handed in failed, and not the plugin.
type CopyError struct {
	// Op says what failed: "reading what is to be stored as a/b".
	Op string
	// Err is the error of the reader or writer.
	Err error
}

// Error returns what failed and why.
func (e *CopyError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the error of the reader or writer.
func (e *CopyError) Unwrap() error { return e.Err }

// GRPCStatus keeps a status that the reader or writer got from elsewhere from being
// taken for one of the plugin.
func (e *CopyError) GRPCStatus() *status.Status { return status.New(codes.Unknown, e.Error()) }
