// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import "time"

// Request is one call of an action. The action must not change it. The deadline of ctx is
// the deadline of the attempt.
type Request struct {
	// Action is the registered name under which the action was called.
	Action string
	// IdempotencyKey is the same for every attempt of one run of the action, also
	// across a restart of the operator or of the plugin, and different for every
	// other run. An action that finds work done under this key must not do it
	// again.
	IdempotencyKey string
	// Attempt counts the attempts of the run from 1. A call that follows a response built
	// with Again belongs to the same attempt.
	Attempt int32
	// Backup is the Backup that a PreBackupAction or PostBackupAction runs for, as of the
	// time of the call. For the other kinds it is the zero value: the Backup object need
	// not exist in the cluster that restores the backup.
	Backup Backup
	// Restore is the Restore that a PreRestoreAction or PostRestoreAction runs for, as of
	// the time of the call. For the other kinds it is the zero value.
	Restore Restore
	// Parameters are what the user configured for this action; never nil.
	Parameters map[string]string
	// Outputs are what the actions that ran before this one in the same run (of the same
	// Backup or Restore) returned, by registered name. Post actions get the outputs of all
	// pre actions; the outputs of the other half of a pair are in Outputs[Action]. Never
	// nil.
	Outputs map[string]map[string]string
	// BackupOutputs are what the PreBackup actions returned when the backup that is being
	// restored was made, by registered name. Only PreRestore and PostRestore actions get
	// them. An expected output may be missing: the backup may be older than your action, or
	// made by Velero. The outputs were read from the backup's storage: anyone with write
	// access to it can change them. Never nil.
	BackupOutputs map[string]map[string]string
}

// Response is the response of an action that did not fail. Build it with Done or Again; a
// nil Response without an error means the same as Done().
type Response struct {
	// Outputs are handed to later actions of the run; outputs of a PreBackup action are stored with
	// the backup, for restores. See the limits of this package. Only outputs of the final response
	// count: outputs next to Again are dropped.
	Outputs map[string]string
	// Again is the delay before the action is called again with the same key. Zero means
	// that the action is done.
	Again time.Duration
	// Message is one sentence for the user, shown in the run's status.
	Message string
}

// Done returns the response of an action that is done.
func Done() *Response {
	return &Response{}
}

// Again returns the response of an action that is not done. The operator calls it again
// after d, with the same idempotency key. Values of d up to a second mean "soon"; more than
// 24 hours is an error. The message says what is being waited for.
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
