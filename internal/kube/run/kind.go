// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// KindTraits says how the things are called that every kind of run has.
type KindTraits struct {
	// Name is that of the kind, for example Backup.
	Name string
	// WorkReason is the reason of the condition, and the first word of the event, while
	// objects are read or written.
	WorkReason string
	// NothingDoneMessage ends the message of a run whose Pre action failed.
	NothingDoneMessage string
	// Failure is the word for one in Velero's names for the metrics of the kind.
	Failure string
	// FailedPrePhase is the phase of a run whose Pre action failed.
	FailedPrePhase string
	// RunningPre, RunningPost, PreActionFailed, PostActionFailed and PostActionsSucceeded
	// are the reasons of conditions that name a point.
	RunningPre, RunningPost, PreActionFailed, PostActionFailed, PostActionsSucceeded string
	// SinglePoint is the one point at which actions run, in a kind that has none before and
	// after: one that fails stops nothing. Its kinds of actions are called after it.
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

// PreHookPoint is the point before the work, or the only one.
func (k KindTraits) PreHookPoint() v1alpha1.HookPoint {
	return cmp.Or(k.SinglePoint, v1alpha1.HookPoint("Pre"+k.Name))
}

// PostHookPoint is the point after the outcome.
func (k KindTraits) PostHookPoint() v1alpha1.HookPoint { return v1alpha1.HookPoint("Post" + k.Name) }

func (k KindTraits) hookPoints() hook.Points {
	return hook.Points{Kind: k.actionKindStem(), HasSinglePoint: k.SinglePoint != ""}
}

// actionKindStem is what kinds of actions are called after.
func (k KindTraits) actionKindStem() string { return cmp.Or(string(k.SinglePoint), k.Name) }

// pluralName is what flags are called after, for example backups.
func (k KindTraits) pluralName() string {
	return strings.ToLower(strings.TrimSuffix(k.Name, "Run")) + "s"
}

// nameLabelKey is the label with the name of the run.
func (k KindTraits) nameLabelKey() string {
	switch k.Name {
	case RestoreKind.Name:
		return v1alpha1.LabelRestoreName
	case DeletionRunKind.Name:
		return v1alpha1.LabelDeletionRunName
	}
	return v1alpha1.LabelBackupName
}

// sidesByActionKind returns which kinds of actions belong to which side.
func (k KindTraits) sidesByActionKind() map[v1alpha1.ActionKind]hook.Side {
	return map[v1alpha1.ActionKind]hook.Side{
		v1alpha1.ActionKind(k.PreHookPoint()) + "Action":  hook.Pre,
		v1alpha1.ActionKind(k.PostHookPoint()) + "Action": hook.Post,
		k.itemActionKind():      hook.Item,
		k.asyncItemActionKind(): hook.Item,
	}
}

// itemActionKind and asyncItemActionKind are the kinds of actions that objects are shown to.
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
