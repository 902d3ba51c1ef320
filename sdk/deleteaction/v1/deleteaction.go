// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// MaxSelectorBytes is how long Selector.LabelSelector may be.
const MaxSelectorBytes = 1 << 10

// DeleteAction removes what belongs to a backup and is kept outside of it. One instance
// serves all calls of its name in a process: it must be safe for concurrent use by different
// deletions, while calls of Execute with one idempotency key never overlap.
type DeleteAction interface {
	// AppliesTo says which Backups concern the action. It is asked once per deletion and has
	// to answer the same every time. An error is treated as one of Execute: it is retried and
	// then recorded.
	AppliesTo(ctx context.Context) (Selector, error)
	// Execute removes what belongs to one Backup. It must be idempotent: what is gone already
	// is no error. An error says what could not be removed and does not keep the backup from
	// being deleted. It returns soon after ctx ends.
	Execute(ctx context.Context, req *DeleteRequest) error
}

// Selector says which Backups concern an action. An empty one means every Backup.
type Selector struct {
	// LabelSelector selects by the labels of the Backup, in the form of kubectl:
	// "app=shop,tier!=cache". It has at most MaxSelectorBytes.
	LabelSelector string
}

// Parse returns what selects Backups, or an error that says what is wrong with the selector.
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

// DeleteRequest is one call of Execute. The action must not change it. The deadline of the
// attempt is that of the ctx.
type DeleteRequest struct {
	// Action is the registered name under which the action was called.
	Action string
	// IdempotencyKey is the same for every attempt of one deletion, also across a restart of
	// the operator or of the plugin, and different for every other deletion.
	IdempotencyKey string
	// Attempt counts the attempts from 1. A later one may find half of the work done.
	Attempt int32
	// Backup is the Backup that is being deleted. Its Raw has the form of velero.io/v1, with
	// Grapnel's name, namespace, UID, labels and annotations. A Backup that was imported from
	// its storage has another UID than when it was made.
	Backup hook.Backup
	// Parameters are what the user configured for this action; never nil.
	Parameters map[string]string
	// BackupOutputs are what the PreBackup actions returned when the backup was made, by
	// registered name: the names of external things, for example. What you look for may be
	// missing: the backup may be older than your action, made by Velero, or half-way lost.
	// They were read from the backup's storage: whoever can write there can change them.
	// Never nil.
	BackupOutputs map[string]map[string]string
}
