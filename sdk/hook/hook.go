// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

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
	// Backup is the Backup the action runs for, as it was when the call was made.
	Backup Backup
	// Parameters are what the user configured for this action; never nil.
	Parameters map[string]string
	// Outputs are what the actions that ran before this one in the same run
	// returned, by registered name. Post actions get the outputs of all pre
	// actions; those of the other half of a pair are Outputs[Action]. Never nil.
	Outputs map[string]map[string]string
}

// Backup is the part of a Backup object that most actions need.
type Backup struct {
	// Name, Namespace and UID identify the object.
	Name, Namespace, UID string
	// Labels and Annotations are the object's metadata.
	Labels, Annotations map[string]string
	// Phase is the object's status.phase: "InProgress" for pre actions, the final
	// outcome ("Completed", "PartiallyFailed", "Failed", "Cancelled" ...) for post
	// actions. New phases may be added: treat unknown ones like a failure.
	Phase string
	// IncludedNamespaces and ExcludedNamespaces are the object's spec. An empty
	// IncludedNamespaces means all; entries may contain "*".
	IncludedNamespaces, ExcludedNamespaces []string
	// StorageLocation is the name of the BackupStorageLocation.
	StorageLocation string
	// Raw is the whole object as JSON.
	Raw []byte
}

// ParseBackup reads a Backup object from JSON. Unknown fields are ignored.
func ParseBackup(raw []byte) (Backup, error) {
	var object struct {
		Metadata struct {
			Name, Namespace, UID string
			Labels, Annotations  map[string]string
		}
		Spec struct {
			IncludedNamespaces, ExcludedNamespaces []string
			StorageLocation                        string
		}
		Status struct{ Phase string }
	}
	if len(raw) == 0 {
		return Backup{}, errors.New("parsing the Backup object: it is empty")
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return Backup{}, fmt.Errorf("parsing the Backup object: %w", err)
	}
	return Backup{
		Name: object.Metadata.Name, Namespace: object.Metadata.Namespace, UID: object.Metadata.UID,
		Labels: object.Metadata.Labels, Annotations: object.Metadata.Annotations,
		Phase:              object.Status.Phase,
		IncludedNamespaces: object.Spec.IncludedNamespaces, ExcludedNamespaces: object.Spec.ExcludedNamespaces,
		StorageLocation: object.Spec.StorageLocation,
		Raw:             raw,
	}, nil
}

// Response is the answer of an action that did not fail. Build it with Done or
// Again; a nil Response without an error means the same as Done().
type Response struct {
	// Outputs are handed to later actions of the run and kept with the backup. See
	// the limits of this package. Only those of the final answer count: outputs
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
