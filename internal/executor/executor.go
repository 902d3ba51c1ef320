// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"time"

	"github.com/grapnel-dev/grapnel/sdk"
)

// The points of a run at which hook actions are executed; the values of Call.Point.
const (
	// PointPreBackup is before the items of a Backup are collected.
	PointPreBackup = "PreBackup"
	// PointPostBackup is after the outcome of a Backup is recorded.
	PointPostBackup = "PostBackup"
	// PointPreRestore is before the first item of a Restore is created.
	PointPreRestore = "PreRestore"
	// PointPostRestore is after the outcome of a Restore is recorded.
	PointPostRestore = "PostRestore"
	// PointDelete is when a backup is deleted, before its files are.
	PointDelete = "Delete"
)

// actionKinds are the kinds that the actions of each point are registered with.
var actionKinds = map[string]string{
	PointPreBackup:   string(sdk.KindPreBackupAction),
	PointPostBackup:  string(sdk.KindPostBackupAction),
	PointPreRestore:  string(sdk.KindPreRestoreAction),
	PointPostRestore: string(sdk.KindPostRestoreAction),
	PointDelete:      string(sdk.KindDeleteAction),
}

const (
	// MinRetryAfter is the shortest delay that an executor returns in Answer.RetryAfter. A shorter
	// one from an action is raised to it, so that an action cannot make the operator spin.
	MinRetryAfter = 100 * time.Millisecond
	// MaxRetryAfter is the longest delay that an action may request. A longer one is an error of
	// kind Failed, because such a run would seem to hang.
	MaxRetryAfter = 24 * time.Hour
)

// Executor runs one action. Implementations are safe for concurrent use.
type Executor interface {
	// Execute makes one attempt. It returns when the attempt or ctx ends. Every error is an *Error.
	Execute(ctx context.Context, call Call) (Answer, error)
}

// Resumable is an Executor whose attempts can outlive their caller: a Job runs while the operator
// is restarted.
//
// If ctx is canceled without a cause (context.Cause is context.Canceled), the operator stops:
// Execute returns Interrupted and leaves running what it started. The next Execute with the same
// key and attempt follows that, and starts nothing else. An Execute of a later attempt ends it
// before it starts anything. If ctx is canceled with a cause, the attempt was canceled on request:
// Execute ends what was started.
//
// Execute also leaves behind what finished by itself, unless it is to be called again. Executing
// the same key and attempt once more returns the same answer, until Stop removes it.
type Resumable interface {
	Executor
	// CollectResult returns the result of an attempt that an earlier caller started and did not
	// follow to its end: an answer or an *Error. ended is true if the attempt finished by itself
	// before the deadline, which has passed. If it did not finish, an *Error of kind Timeout may
	// say why. Any other *Error means that it is unknown whether it did. CollectResult removes
	// nothing, so it can be called again until the answer is recorded.
	CollectResult(ctx context.Context, call Call, deadline time.Time) (answer Answer, ended bool, err error)
	// Stop ends and removes what a call left behind, in this attempt or an earlier one. It is for a
	// run that is not executed again, because its answer is recorded or the run is abandoned. Stop
	// returns when everything is removed, or an *Error if ctx ended before that. The action of the
	// call may be another one of the same plugin.
	Stop(ctx context.Context, call Call) error
}

// Call is one attempt at one action.
type Call struct {
	// Point is one of the Point constants.
	Point string
	// Action is the registered name of the action, such as "example.io/quiesce".
	Action string
	// Key is the idempotency key: the same for all attempts of one run.
	Key string
	// Attempt counts from 1.
	Attempt int32
	// Subject is the Backup or Restore as JSON; at PointDelete, the Backup in the format of
	// velero.io/v1.
	Subject []byte
	// Parameters are what the user configured for the action.
	Parameters map[string]string
	// Outputs are the outputs of earlier actions of the same run, by action name.
	Outputs map[string]map[string]string
	// Progress is what an earlier call of the same run returned as its Progress, nil if none did.
	Progress map[string]string
	// BackupName is the name of the backup that a Restore restores, even if the Restore names a
	// schedule; "" for actions of a Backup.
	BackupName string
	// BackupOutputs are the outputs of the PreBackup actions of that backup, by action name, as
	// read from its storage; nil for actions of a Backup.
	BackupOutputs map[string]map[string]string
}

// ActionKind returns the kind of the action, for example "PreBackupAction".
func (c Call) ActionKind() string { return actionKinds[c.Point] }

// Answer is the result of an action that did not fail.
type Answer struct {
	// RetryAfter is greater than zero if the action is not done yet and has to be called again,
	// with the same key, after this time. It is then between MinRetryAfter and MaxRetryAfter.
	RetryAfter time.Duration
	// Message is one redacted line for users, of at most MaxMessageLength bytes.
	Message string
	// Ignored reports that something failed that does not matter to the run; Message says what. It
	// is a warning of the run.
	Ignored bool
	// Progress is what the next call and the action that undoes this one have to know, if the action
	// is not done yet. It is recorded as its outputs, with their limits, until there are Outputs.
	Progress map[string]string
	// Outputs are values for later actions of the run. Their number and size
	// are within the limits that package sdk/hook documents.
	Outputs map[string]string
}
