// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// Kind says how the things are called that every kind of run has.
type Kind struct {
	// Name is that of the kind, for example Backup.
	Name string
	// Work is the reason of the condition, and the first word of the event, while
	// objects are read or written.
	Work string
	// NothingDone ends the message of a run whose Pre action failed.
	NothingDone string
	// Failure is the word for one in Velero's names for the metrics of the kind.
	Failure string
	// Only is the one point at which actions run, in a kind that has none before and
	// after: one that fails stops nothing. Its kinds of actions are called after it.
	Only v1alpha1.HookPoint
}

// The kinds of runs.
var (
	Backup  = Kind{Name: "Backup", Work: v1alpha1.ReasonArchiving, NothingDone: "nothing was archived", Failure: "failure"}
	Restore = Kind{Name: "Restore", Work: v1alpha1.ReasonRestoring, NothingDone: "nothing was restored", Failure: "failed"}

	Deletion = Kind{Name: "DeletionRun", Work: v1alpha1.ReasonDeleting, NothingDone: "nothing was deleted", Failure: "failure", Only: v1alpha1.HookDelete}
)

// Pre is the point before the work, or the only one.
func (k Kind) Pre() v1alpha1.HookPoint {
	return cmp.Or(k.Only, v1alpha1.HookPoint("Pre"+k.Name))
}

// Post is the point after the outcome.
func (k Kind) Post() v1alpha1.HookPoint { return v1alpha1.HookPoint("Post" + k.Name) }

func (k Kind) points() hook.Points { return hook.Points{Kind: k.stem(), Once: k.Only != ""} }

// stem is what kinds of actions are called after.
func (k Kind) stem() string { return cmp.Or(string(k.Only), k.Name) }

// plural is what flags are called after, for example backups.
func (k Kind) plural() string { return strings.ToLower(strings.TrimSuffix(k.Name, "Run")) + "s" }

// nameLabel is the label with the name of the run.
func (k Kind) nameLabel() string {
	switch k.Name {
	case Restore.Name:
		return v1alpha1.LabelRestoreName
	case Deletion.Name:
		return v1alpha1.LabelDeletionRunName
	}
	return v1alpha1.LabelBackupName
}

// sides returns which kinds of actions belong to which side.
func (k Kind) sides() map[v1alpha1.ActionKind]hook.Side {
	return map[v1alpha1.ActionKind]hook.Side{
		v1alpha1.ActionKind(k.Pre()) + "Action":  hook.Pre,
		v1alpha1.ActionKind(k.Post()) + "Action": hook.Post,
		k.itemKind():                             hook.Item,
		k.asyncItemKind():                        hook.Item,
	}
}

// itemKind and asyncItemKind are the kinds of actions that objects are shown to.
func (k Kind) itemKind() v1alpha1.ActionKind { return v1alpha1.ActionKind(k.stem()) + "ItemAction" }

func (k Kind) asyncItemKind() v1alpha1.ActionKind { return "Async" + k.itemKind() }

// The phases that every kind of run has.
const (
	PhaseNew              = "New"
	PhaseFailedValidation = "FailedValidation"
	PhaseInProgress       = "InProgress"
	PhaseWaiting          = "WaitingForPluginOperations"
	PhaseFinalizing       = "Finalizing"
	PhaseCompleted        = "Completed"
	PhasePartiallyFailed  = "PartiallyFailed"
	PhaseFailed           = "Failed"
	PhaseCancelled        = "Cancelled"
)

// preFailed is the phase of a run whose Pre action failed.
func (k Kind) preFailed() string { return "Failed" + string(k.Pre()) + "Actions" }

// The reasons of conditions that name a point; api/v1alpha1 documents each.
func (k Kind) runningPre() string       { return "Running" + string(k.Pre()) + "Actions" }
func (k Kind) runningPost() string      { return "Running" + string(k.Post()) + "Actions" }
func (k Kind) runningEach() string      { return "Running" + string(k.Only) + "Actions" }
func (k Kind) preActionFailed() string  { return string(k.Pre()) + "ActionFailed" }
func (k Kind) postActionFailed() string { return string(k.Post()) + "ActionFailed" }
func (k Kind) postSucceeded() string    { return string(k.Post()) + "ActionsSucceeded" }
