// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// MaxSelectorBytes is the maximum length of Selector.LabelSelector.
const MaxSelectorBytes = 1 << 10

// DeleteAction removes data that belongs to a backup and is stored outside it. One instance
// serves all calls of its name in a process: it must be safe for concurrent use by different
// deletions, while calls of Execute with one idempotency key never overlap.
type DeleteAction interface {
	// AppliesTo returns which Backups the action applies to. It is called once per deletion
	// and must return the same selector every time. An error is handled like an error of
	// Execute: the call is retried, then the error is recorded.
	AppliesTo(ctx context.Context) (Selector, error)
	// Execute removes what belongs to one Backup. It must be idempotent: data that no longer
	// exists is not an error. An error says what could not be removed and does not prevent
	// the deletion of the backup. Execute must return soon after ctx ends.
	Execute(ctx context.Context, req *DeleteRequest) error
}

// Selector selects the Backups that an action applies to. An empty Selector selects every
// Backup.
type Selector struct {
	// LabelSelector selects by the labels of the Backup, in the syntax of kubectl:
	// "app=shop,tier!=cache". It has at most MaxSelectorBytes.
	LabelSelector string
}

// Parse returns the parsed selector, or an error that says what is wrong with it.
func (s Selector) Parse() (labels.Selector, error) {
	if size := len(s.LabelSelector); size > MaxSelectorBytes {
		return nil, fmt.Errorf("the label selector has %d bytes, at most %d are allowed", size, MaxSelectorBytes)
	}
	selector, err := labels.Parse(s.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("the label selector cannot be read: %w (it is %q)", err, s.LabelSelector)
	}
	return selector, nil
}

// DeleteRequest is one call of Execute. The action must not change it. The deadline of ctx
// is the deadline of the attempt.
type DeleteRequest struct {
	// Action is the registered name under which the action was called.
	Action string
	// IdempotencyKey is the same for every attempt of one deletion, also across a restart of
	// the operator or of the plugin, and different for every other deletion.
	IdempotencyKey string
	// Attempt counts the attempts from 1. A later attempt may find the work partly done.
	Attempt int32
	// Backup is the Backup that is being deleted. Its Raw has the form of velero.io/v1, with
	// Grapnel's name, namespace, UID, labels and annotations. A Backup that was imported from
	// its storage has a different UID than the original.
	Backup hook.Backup
	// Parameters are what the user configured for this action; never nil.
	Parameters map[string]string
	// BackupOutputs are what the PreBackup actions returned when the backup was made, by
	// registered name, for example the names of external resources. An expected output may
	// be missing: the backup may be older than your action, made by Velero, or damaged. The
	// outputs were read from the backup's storage: anyone with write access to it can
	// change them. Never nil.
	BackupOutputs map[string]map[string]string
}
