// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// KindTraits has the names and reasons in which the kinds of runs differ.
type KindTraits struct {
	// Name is the name of the kind, for example Backup.
	Name string
	// NameLabel is the key of the label with the name of the run.
	NameLabel string
	// SlotsFlag is the operator's flag that sets how many runs may be active at a time.
	SlotsFlag string
	// WorkReason is the reason of the condition Succeeded, and the first word of the event,
	// while objects are read or written.
	WorkReason string
	// HasProgressEvents reports whether there are events when a run waits for a slot, and when its
	// work begins. A thousand DeletionRuns may wait at once, and their work takes a moment.
	HasProgressEvents bool
	// NothingDoneMessage ends the message of a run whose Pre action failed.
	NothingDoneMessage string
	// Metrics are the names of its metrics.
	Metrics MetricNames
	// FailedPrePhase is the phase of a run whose Pre action failed.
	FailedPrePhase v1alpha1.RunPhase
	// RunningPre, RunningPost, PreActionFailed, PostActionFailed and PostActionsSucceeded are
	// the reasons that name a hook point.
	RunningPre, RunningPost, PreActionFailed, PostActionFailed, PostActionsSucceeded string
	// PreHookPoint is the hook point before the work, PostHookPoint the one after the outcome.
	// A kind without PostHookPoint has a single point. An action that fails there stops nothing.
	PreHookPoint, PostHookPoint v1alpha1.HookPoint
	// PreActionKind and PostActionKind are the kinds of the actions of the hook points.
	PreActionKind, PostActionKind v1alpha1.ActionKind
	// ItemActionKind and AsyncItemActionKind are the kinds of item actions. ItemBlockActionKind is that
	// of Velero's actions which only name the objects that belong with an object.
	ItemActionKind, AsyncItemActionKind, ItemBlockActionKind v1alpha1.ActionKind
}

// MetricNames are the names of the metrics of a kind of run: those of Velero, where it has them, with the
// prefix grapnel_. They are written out, so that a search finds them.
type MetricNames struct {
	Attempts, Successes, PartialFailures, Failures, ValidationFailures, Cancelled, Duration string
	Objects, Queued, LastSuccessful, CleanupOwed, StepsLeftBehind                           string
}

// The kinds of runs.
var (
	BackupKind = KindTraits{
		Name: "Backup", NameLabel: v1alpha1.LabelBackupName, SlotsFlag: "--max-concurrent-backups",
		WorkReason: v1alpha1.ReasonArchiving, HasProgressEvents: true, NothingDoneMessage: "nothing was archived",
		FailedPrePhase: v1alpha1.RunPhaseFailedPreBackupActions,
		RunningPre:     v1alpha1.ReasonRunningPreActions, PreActionFailed: v1alpha1.ReasonPreActionFailed,
		RunningPost: v1alpha1.ReasonRunningPostActions, PostActionFailed: v1alpha1.ReasonPostActionFailed,
		PostActionsSucceeded: v1alpha1.ReasonPostActionsSucceeded,
		PreHookPoint:         v1alpha1.HookPreBackup, PostHookPoint: v1alpha1.HookPostBackup,
		PreActionKind: v1alpha1.ActionKindPreBackup, PostActionKind: v1alpha1.ActionKindPostBackup,
		ItemActionKind: v1alpha1.ActionKindBackupItem, AsyncItemActionKind: v1alpha1.ActionKindAsyncBackupItem,
		ItemBlockActionKind: v1alpha1.ActionKindItemBlock,
		Metrics: MetricNames{
			Attempts: "grapnel_backup_attempt_total", Successes: "grapnel_backup_success_total",
			PartialFailures: "grapnel_backup_partial_failure_total", Failures: "grapnel_backup_failure_total",
			ValidationFailures: "grapnel_backup_validation_failure_total", Cancelled: "grapnel_backup_cancelled_total",
			Duration: "grapnel_backup_duration_seconds", Objects: "grapnel_backup_total", Queued: "grapnel_backup_queued",
			LastSuccessful: "grapnel_backup_last_successful_timestamp", CleanupOwed: "grapnel_backup_cleanup_owed",
			StepsLeftBehind: "grapnel_backup_steps_left_behind",
		},
	}
	RestoreKind = KindTraits{
		Name: "Restore", NameLabel: v1alpha1.LabelRestoreName, SlotsFlag: "--max-concurrent-restores",
		WorkReason: v1alpha1.ReasonRestoring, HasProgressEvents: true, NothingDoneMessage: "nothing was restored",
		FailedPrePhase: v1alpha1.RunPhaseFailedPreRestoreActions,
		RunningPre:     v1alpha1.ReasonRunningPreRestoreActions, PreActionFailed: v1alpha1.ReasonPreRestoreActionFailed,
		RunningPost: v1alpha1.ReasonRunningPostRestoreActions, PostActionFailed: v1alpha1.ReasonPostRestoreActionFailed,
		PostActionsSucceeded: v1alpha1.ReasonPostRestoreActionsSucceeded,
		PreHookPoint:         v1alpha1.HookPreRestore, PostHookPoint: v1alpha1.HookPostRestore,
		PreActionKind: v1alpha1.ActionKindPreRestore, PostActionKind: v1alpha1.ActionKindPostRestore,
		ItemActionKind: v1alpha1.ActionKindRestoreItem, AsyncItemActionKind: v1alpha1.ActionKindAsyncRestoreItem,
		Metrics: MetricNames{
			Attempts: "grapnel_restore_attempt_total", Successes: "grapnel_restore_success_total",
			PartialFailures: "grapnel_restore_partial_failure_total", Failures: "grapnel_restore_failed_total",
			ValidationFailures: "grapnel_restore_validation_failed_total", Cancelled: "grapnel_restore_cancelled_total",
			Duration: "grapnel_restore_duration_seconds", Objects: "grapnel_restore_total", Queued: "grapnel_restore_queued",
			LastSuccessful: "grapnel_restore_last_successful_timestamp", CleanupOwed: "grapnel_restore_cleanup_owed",
			StepsLeftBehind: "grapnel_restore_steps_left_behind",
		},
	}
	DeletionRunKind = KindTraits{
		Name: "DeletionRun", NameLabel: v1alpha1.LabelDeletionRunName, SlotsFlag: "--max-concurrent-deletions",
		WorkReason: v1alpha1.ReasonDeleting, NothingDoneMessage: "nothing was deleted",
		RunningPre:   v1alpha1.ReasonRunningDeleteActions,
		PreHookPoint: v1alpha1.HookDelete, PreActionKind: v1alpha1.ActionKindDelete,
		ItemActionKind: v1alpha1.ActionKindDeleteItem,
		Metrics: MetricNames{
			Attempts: "grapnel_deletionrun_attempt_total", Successes: "grapnel_deletionrun_success_total",
			PartialFailures: "grapnel_deletionrun_partial_failure_total", Failures: "grapnel_deletionrun_failure_total",
			ValidationFailures: "grapnel_deletionrun_validation_failure_total", Cancelled: "grapnel_deletionrun_cancelled_total",
			Duration: "grapnel_deletionrun_duration_seconds", Objects: "grapnel_deletionrun_total", Queued: "grapnel_deletionrun_queued",
			LastSuccessful: "grapnel_deletionrun_last_successful_timestamp", CleanupOwed: "grapnel_deletionrun_cleanup_owed",
			StepsLeftBehind: "grapnel_deletionrun_steps_left_behind",
		},
	}
)

// HasSingleHookPoint reports whether the kind has only one hook point.
func (k KindTraits) HasSingleHookPoint() bool { return k.PostHookPoint == "" }

func (k KindTraits) hookPoints() hook.Points {
	return hook.Points{
		Kind: k.Name, Pre: string(k.PreHookPoint), Post: string(k.PostHookPoint),
		Item: strings.TrimSuffix(string(k.ItemActionKind), "Action"),
	}
}

// sideOfActionKind returns the side on which the actions of a kind run; false if the runs call
// none of that kind.
func (k KindTraits) sideOfActionKind(kind v1alpha1.ActionKind) (side hook.Side, ok bool) {
	switch kind {
	case k.PreActionKind:
		return hook.Pre, true
	case k.PostActionKind:
		return hook.Post, true
	case k.ItemActionKind, k.AsyncItemActionKind, k.ItemBlockActionKind:
		return hook.Item, true
	default:
		return 0, false
	}
}
