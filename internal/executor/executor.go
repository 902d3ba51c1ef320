// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"time"
)

// The points of a run at which hook actions are executed, the values of
// Call.Point. An action of a point is registered as kind "<point>Action".
const (
	// PointPreBackup is before the items of a Backup are collected.
	PointPreBackup = "PreBackup"
	// PointPostBackup is after the outcome of a Backup is recorded.
	PointPostBackup = "PostBackup"
	// PointPreRestore is before the first item of a Restore is created.
	PointPreRestore = "PreRestore"
	// PointPostRestore is after the outcome of a Restore is recorded.
	PointPostRestore = "PostRestore"
	// PointDelete is when a backup is destroyed, before its files.
	PointDelete = "Delete"
)

const (
	// MinRetryAfter is the shortest delay an executor returns in Answer.Again. A
	// shorter one that an action asked for is raised to it, so that an action
	// cannot make the operator spin.
	MinRetryAfter = 100 * time.Millisecond
	// MaxRetryAfter is the longest delay an action may ask for; more is an error of
	// kind Failed, because nobody would notice that such a run still goes on.
	MaxRetryAfter = 24 * time.Hour
)

// Executor runs one action. Implementations are safe for concurrent use.
type Executor interface {
	// Execute makes one attempt and returns when it ended or when ctx did.
	// Every error is an *Error.
	Execute(ctx context.Context, call Call) (Answer, error)
}

// Resumable is an Executor of which an attempt goes on when its caller does not: a Job runs
// while the operator is restarted.
//
// A ctx that is cancelled without a cause (context.Cause is context.Canceled) says that the
// operator ends: Execute returns Interrupted and leaves what it began. The Execute that comes
// next with the same key and attempt follows that, and begins nothing else; that of a later
// attempt ends it before it begins anything. A ctx that is cancelled with a cause was cancelled
// by somebody: what was begun is ended.
//
// What ended by itself is left by Execute, too, unless it is to be called again: whoever executes
// the same key and attempt once more gets the same answer, until Stop removes it.
type Resumable interface {
	Executor
	// CollectResult returns what the attempt came to that a caller before this one began and did not
	// follow to its end, if it ended by itself until a deadline that has passed: an answer or
	// an *Error. If it did not end, an *Error of kind Timeout may say why, and any other that
	// it is not known whether it did. It leaves what there is of it, so that it can be asked for again until the
	// answer is recorded.
	CollectResult(ctx context.Context, call Call, deadline time.Time) (answer Answer, ended bool, err error)
	// Stop ends and removes what is left of a call, in this attempt or one before it, for a run
	// that is not executed again: because its answer is recorded, or it is given up. It returns
	// when nothing of it is left, or an *Error if that could not be had before ctx ended. The
	// action of the call may be another one of the same plugin.
	Stop(ctx context.Context, call Call) error
}

// Call is one attempt at one action.
type Call struct {
	// Point is one of the Point constants.
	Point string
	// Action is the registered name of the action, "example.io/quiesce".
	Action string
	// Key is the idempotency key: the same for all attempts of one run.
	Key string
	// Attempt counts from 1.
	Attempt int32
	// Subject is the Backup or Restore as JSON; at PointDelete the Backup in the form of
	// velero.io/v1.
	Subject []byte
	// Parameters are what the user configured for the action.
	Parameters map[string]string
	// Outputs are what earlier actions of the same run returned, by action name.
	Outputs map[string]map[string]string
	// BackupName is the name of the backup that a Restore restores, also if the
	// Restore names a schedule; "" for actions of a Backup.
	BackupName string
	// BackupOutputs are what the PreBackup actions returned when that backup was
	// made, by action name, as they were read from its storage; nil for actions of a
	// Backup.
	BackupOutputs map[string]map[string]string
}

// ActionKind returns the kind of action that the call is for: the point's name with
// "Action" behind it.
func (c Call) ActionKind() string {
	return c.Point + "Action"
}

// Answer is what an action returned that did not fail.
type Answer struct {
	// RetryAfter is greater than zero when the action is not done yet and wants to
	// be called again, with the same key, after this time; it lies between
	// MinRetryAfter and MaxRetryAfter then.
	RetryAfter time.Duration
	// Message is one line for people, redacted, at most MaxMessageLength bytes.
	Message string
	// Outputs are values for later actions of the run. Their number and size
	// are within the limits that package sdk/hook documents.
	Outputs map[string]string
}
