// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import "time"

// Request is one call of an action. The action must not change it. The deadline
// of the attempt is that of the ctx.
type Request struct {
	// Action is the registered name under which the action was called.
	Action string
	// IdempotencyKey is the same for every attempt of one run of the action, also
	// across a restart of the operator or of the plugin, and different for every
	// other run. An action that finds work done under this key must not do it
	// again.
	IdempotencyKey string
	// Attempt counts the attempts of the run from 1. A call that follows an answer
	// Again belongs to the same attempt.
	Attempt int32
	// Backup is the Backup that a PreBackupAction or PostBackupAction runs for, as it
	// was when the call was made. For the other kinds it is the zero value: the
	// object of a backup need not exist in the cluster that restores it.
	Backup Backup
	// Restore is the Restore that a PreRestoreAction or PostRestoreAction runs for, as
	// it was when the call was made. For the other kinds it is the zero value.
	Restore Restore
	// Parameters are what the user configured for this action; never nil.
	Parameters map[string]string
	// Outputs are what the actions that ran before this one in the same run (of the
	// same Backup or Restore) returned, by registered name. Post actions get the
	// outputs of all pre actions; those of the other half of a pair are
	// Outputs[Action]. Never nil.
	Outputs map[string]map[string]string
	// BackupOutputs are what the PreBackup actions returned when the backup was made
	// that is restored now, by registered name. Only PreRestore and PostRestore
	// actions get them. What you look for may be missing: the backup may be older
	// than your action, or made by Velero. They were read from the backup's storage:
	// whoever can write there can change them. Never nil.
	BackupOutputs map[string]map[string]string
}

// Response is the answer of an action that did not fail. Build it with Done or
// Again; a nil Response without an error means the same as Done().
type Response struct {
	// Outputs are handed to later actions of the run; those of a PreBackup action are
	// kept with the backup, for restores. See the limits of this package. Only those of the final answer count: outputs
	// beside Again are dropped.
	Outputs map[string]string
	// Again is how long to wait before the action is called again with the same
	// key. Zero means that the action is done.
	Again time.Duration
	// Message is one sentence for the user, shown in the run's status.
	Message string
}

// Done returns the answer of an action that is done.
func Done() *Response {
	return &Response{}
}

// Again returns the answer of an action that is not done: call it again after d,
// with the same idempotency key. Values of d up to a second mean "soon", more
// than 24 hours is an error. The message says what is being waited for.
func Again(d time.Duration, message string) *Response {
	return &Response{Again: d, Message: message}
}

// WithMessage sets the message and returns r.
func (r *Response) WithMessage(message string) *Response {
	r.Message = message
	return r
}

// WithOutput adds one output and returns r.
func (r *Response) WithOutput(key, value string) *Response {
	if r.Outputs == nil {
		r.Outputs = map[string]string{}
	}
	r.Outputs[key] = value
	return r
}
