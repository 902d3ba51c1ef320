// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupimport

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// status has the fields that are read from the status of velero-backup.json.
type status struct {
	Phase               string       `json:"phase"`
	FormatVersion       string       `json:"formatVersion"`
	StartTimestamp      *metav1.Time `json:"startTimestamp"`
	CompletionTimestamp *metav1.Time `json:"completionTimestamp"`
	Expiration          *metav1.Time `json:"expiration"`
	Warnings            int64        `json:"warnings"`
	Errors              int64        `json:"errors"`
	FailureReason       string       `json:"failureReason"`
	Progress            *progress    `json:"progress"`

	OperationsAttempted int64 `json:"backupItemOperationsAttempted"`
	OperationsCompleted int64 `json:"backupItemOperationsCompleted"`
	OperationsFailed    int64 `json:"backupItemOperationsFailed"`
}

type progress struct {
	TotalItems    int64 `json:"totalItems"`
	ItemsBackedUp int64 `json:"itemsBackedUp"`
}

// outcome is the outcome of a backup, in the terms of the API.
type outcome struct {
	phase  v1alpha1.RunPhase
	reason string
}

// outcomeForPhase returns the outcome of a backup; an empty phase means that it has not finished.
// reason is what is wrong with the manifest.
func (s status) outcomeForPhase() (o outcome, reason string) {
	switch s.Phase {
	case velero.PhaseCompleted:
		return outcome{v1alpha1.RunPhaseCompleted, v1alpha1.ReasonCompleted}, ""
	case velero.PhasePartiallyFailed:
		return outcome{v1alpha1.RunPhasePartiallyFailed, v1alpha1.ReasonPartiallyFailed}, ""
	case velero.PhaseFailed:
		return outcome{v1alpha1.RunPhaseFailed, v1alpha1.ReasonFailed}, ""
	case velero.PhaseFailedValidation:
		return outcome{v1alpha1.RunPhaseFailedValidation, v1alpha1.ReasonFailedValidation}, ""
	case velero.PhaseNew, velero.PhaseQueued, velero.PhaseReadyToStart, velero.PhaseInProgress, velero.PhaseUploading,
		velero.PhaseUploadingPartialFailure, velero.PhaseWaitingForPluginOperations, velero.PhaseWaitingForPluginOperationsPartiallyFailed,
		velero.PhaseFinalizing, velero.PhaseFinalizingPartiallyFailed, velero.PhaseDeleting:
		return outcome{}, ""
	case "":
		return outcome{}, "does not say how the backup ended"
	}
	return outcome{}, fmt.Sprintf("has the phase %.63q, which this version of Grapnel does not know", s.Phase)
}

// setBackupStatus sets the status, or returns what is wrong with the manifest.
func (m manifest) setBackupStatus(b *v1alpha1.Backup, from Source, o outcome, grapnel *storage.GrapnelManifest) (reason string) {
	completed := firstKnownTime(m.Status.CompletionTimestamp, m.Status.StartTimestamp, m.Metadata.CreationTimestamp)
	if completed == nil {
		return "does not say when the backup ended"
	}
	b.Status = v1alpha1.BackupStatus{
		Phase: o.phase, StorageLocation: from.Location, FormatVersion: validFormatVersion(m.Status.FormatVersion),
		Expiration: firstKnownTime(m.Status.Expiration), Progress: m.Status.backupProgress(), Files: storedFiles(from, o, grapnel),
	}
	run := &b.Status.RunStatus
	run.StartTimestamp = firstKnownTime(m.Status.StartTimestamp, m.Metadata.CreationTimestamp)
	run.CompletionTimestamp = completed
	run.Warnings, run.Errors = max(0, m.Status.Warnings), max(0, m.Status.Errors)
	run.Operations = m.Status.operationCounts()
	if o.phase == v1alpha1.RunPhaseFailed {
		if from.Redact != nil {
			m.Status.FailureReason = from.Redact(m.Status.FailureReason)
		}
		run.FailureReason = cmp.Or(executor.OneLine(m.Status.FailureReason), "the manifest does not say why")
	}
	run.Message = m.Status.outcomeMessage(b) + "; found in BackupStorageLocation " + from.Location
	succeeded := metav1.ConditionFalse
	state := conditions.Stalled
	if o.phase == v1alpha1.RunPhaseCompleted {
		succeeded, state = metav1.ConditionTrue, conditions.Current
	}
	conditions.Set(b, v1alpha1.ConditionSucceeded, succeeded, o.reason, run.Message)
	conditions.SetSummary(b, state, v1alpha1.ReasonImported, run.Message)
	return ""
}

// outcomeMessage describes the outcome of a backup.
func (s status) outcomeMessage(b *v1alpha1.Backup) string {
	if b.Status.FailureReason != "" {
		return "Failed: " + b.Status.FailureReason
	}
	message := string(b.Status.Phase)
	if s.Progress != nil {
		message = formatCount(b.Status.Progress.ItemsBackedUp, "object") + " in the archive"
	}
	if n := b.Status.Errors; n > 0 {
		message += ", " + formatCount(n, "error")
	}
	if n := b.Status.Warnings; n > 0 {
		message += ", " + formatCount(n, "warning")
	}
	return message
}

func (s status) backupProgress() *v1alpha1.BackupProgress {
	if s.Progress == nil {
		return nil
	}
	return &v1alpha1.BackupProgress{TotalItems: max(0, s.Progress.TotalItems), ItemsBackedUp: max(0, s.Progress.ItemsBackedUp)}
}

// operationCounts counts the operations by outcome; nil if there were none.
func (s status) operationCounts() *v1alpha1.OperationCounts {
	if s.OperationsAttempted <= 0 {
		return nil
	}
	return &v1alpha1.OperationCounts{
		Attempted: clampToInt32(s.OperationsAttempted), Completed: clampToInt32(s.OperationsCompleted), Failed: clampToInt32(s.OperationsFailed), Percent: 100,
	}
}

func clampToInt32(n int64) int32 { return int32(min(max(0, n), math.MaxInt32)) }

// storedFiles returns the names of the stored files. The manifest of Velero does not list its
// files, which are always these.
func storedFiles(from Source, o outcome, grapnel *storage.GrapnelManifest) *v1alpha1.BackupFiles {
	if o.phase != v1alpha1.RunPhaseCompleted && o.phase != v1alpha1.RunPhasePartiallyFailed {
		return nil
	}
	key := func(file storage.File) string {
		if grapnel != nil {
			if _, stored := grapnel.Files[file]; !stored {
				return ""
			}
		}
		return storage.FileKey(from.Prefix, from.Name, file)
	}
	return &v1alpha1.BackupFiles{
		Archive: key(storage.Contents), Log: key(storage.Logs), Results: key(storage.Results),
	}
}

// validFormatVersion returns the version of an archive's format if it is plausible.
func validFormatVersion(stored string) string {
	if len(stored) > 32 || strings.ContainsFunc(stored, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return stored
}

// firstKnownTime returns a copy of the first of these times that is set.
func firstKnownTime(times ...*metav1.Time) *metav1.Time {
	for _, t := range times {
		if t != nil && !t.IsZero() {
			return t.DeepCopy()
		}
	}
	return nil
}

func formatCount(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
