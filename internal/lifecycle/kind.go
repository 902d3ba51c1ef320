// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// KindTraits has the names and reasons in which the kinds of runs differ.
type KindTraits struct {
	// Name is the name of the kind, for example Backup.
	Name string
	// WorkReason is the reason of the condition Succeeded, and the first word of the event,
	// while objects are read or written.
	WorkReason string
	// NothingDoneMessage ends the message of a run whose Pre action failed.
	NothingDoneMessage string
	// Failure is the word for a failure in Velero's metric names for the kind.
	Failure string
	// FailedPrePhase is the phase of a run whose Pre action failed.
	FailedPrePhase string
	// RunningPre, RunningPost, PreActionFailed, PostActionFailed and PostActionsSucceeded are
	// the reasons that name a hook point.
	RunningPre, RunningPost, PreActionFailed, PostActionFailed, PostActionsSucceeded string
	// SinglePoint is the only hook point of a kind that has none before and after its work. An
	// action that fails there stops nothing. The action kinds are named after this point.
	SinglePoint v1alpha1.HookPoint
}

// The kinds of runs.
var (
	BackupKind = KindTraits{
		Name: "Backup", WorkReason: v1alpha1.ReasonArchiving, NothingDoneMessage: "nothing was archived", Failure: "failure",
		FailedPrePhase: string(v1alpha1.BackupPhaseFailedPreBackupActions),
		RunningPre:     v1alpha1.ReasonRunningPreActions, PreActionFailed: v1alpha1.ReasonPreActionFailed,
		RunningPost: v1alpha1.ReasonRunningPostActions, PostActionFailed: v1alpha1.ReasonPostActionFailed,
		PostActionsSucceeded: v1alpha1.ReasonPostActionsSucceeded,
	}
	RestoreKind = KindTraits{
		Name: "Restore", WorkReason: v1alpha1.ReasonRestoring, NothingDoneMessage: "nothing was restored", Failure: "failed",
		FailedPrePhase: string(v1alpha1.RestorePhaseFailedPreRestoreActions),
		RunningPre:     v1alpha1.ReasonRunningPreRestoreActions, PreActionFailed: v1alpha1.ReasonPreRestoreActionFailed,
		RunningPost: v1alpha1.ReasonRunningPostRestoreActions, PostActionFailed: v1alpha1.ReasonPostRestoreActionFailed,
		PostActionsSucceeded: v1alpha1.ReasonPostRestoreActionsSucceeded,
	}
	DeletionRunKind = KindTraits{
		Name: "DeletionRun", WorkReason: v1alpha1.ReasonDeleting, NothingDoneMessage: "nothing was deleted", Failure: "failure",
		RunningPre: v1alpha1.ReasonRunningDeleteActions, SinglePoint: v1alpha1.HookDelete,
	}
)

// PreHookPoint is the hook point before the work, or the only one.
func (k KindTraits) PreHookPoint() v1alpha1.HookPoint {
	return cmp.Or(k.SinglePoint, v1alpha1.HookPoint("Pre"+k.Name))
}

// PostHookPoint is the hook point after the outcome.
func (k KindTraits) PostHookPoint() v1alpha1.HookPoint { return v1alpha1.HookPoint("Post" + k.Name) }

func (k KindTraits) hookPoints() hook.Points {
	return hook.Points{Kind: k.actionKindStem(), HasSinglePoint: k.SinglePoint != ""}
}

// actionKindStem is the stem of the names of action kinds.
func (k KindTraits) actionKindStem() string { return cmp.Or(string(k.SinglePoint), k.Name) }

// pluralName is the plural in the names of flags, for example backups.
func (k KindTraits) pluralName() string {
	return strings.ToLower(strings.TrimSuffix(k.Name, "Run")) + "s"
}

// nameLabelKey is the key of the label with the name of the run.
func (k KindTraits) nameLabelKey() string {
	switch k.Name {
	case RestoreKind.Name:
		return v1alpha1.LabelRestoreName
	case DeletionRunKind.Name:
		return v1alpha1.LabelDeletionRunName
	}
	return v1alpha1.LabelBackupName
}

// sidesByActionKind maps action kinds to the sides on which they run.
func (k KindTraits) sidesByActionKind() map[v1alpha1.ActionKind]hook.Side {
	return map[v1alpha1.ActionKind]hook.Side{
		v1alpha1.ActionKind(k.PreHookPoint()) + "Action":  hook.Pre,
		v1alpha1.ActionKind(k.PostHookPoint()) + "Action": hook.Post,
		k.itemActionKind():      hook.Item,
		k.asyncItemActionKind(): hook.Item,
	}
}

// itemActionKind and asyncItemActionKind are the kinds of item actions.
func (k KindTraits) itemActionKind() v1alpha1.ActionKind {
	return v1alpha1.ActionKind(k.actionKindStem()) + "ItemAction"
}

func (k KindTraits) asyncItemActionKind() v1alpha1.ActionKind { return "Async" + k.itemActionKind() }

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
