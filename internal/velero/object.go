// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package velero

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Velero's phases of backups and restores that plugins see and manifests contain.
const (
	// PhaseNew is that of a run that has not started.
	PhaseNew = "New"
	// PhaseQueued is that of a run that waits for others.
	PhaseQueued = "Queued"
	// PhaseReadyToStart is that of a run that leaves the queue.
	PhaseReadyToStart = "ReadyToStart"
	// PhaseFailedValidation is that of a run whose spec is invalid.
	PhaseFailedValidation = "FailedValidation"
	// PhaseInProgress is that of a run that processes its objects.
	PhaseInProgress = "InProgress"
	// PhaseFinalizing is that of a backup whose operations have ended and which archives
	// their results.
	PhaseFinalizing = "Finalizing"
	// PhaseFinalizingPartiallyFailed is PhaseFinalizing for a backup with errors.
	PhaseFinalizingPartiallyFailed = "FinalizingPartiallyFailed"
	// PhaseUploading is that of a backup with uploads in older versions of Velero.
	PhaseUploading = "Uploading"
	// PhaseUploadingPartialFailure is PhaseUploading for a backup with errors.
	PhaseUploadingPartialFailure = "UploadingPartialFailure"
	// PhaseWaitingForPluginOperations is that of a run that waits for operations.
	PhaseWaitingForPluginOperations = "WaitingForPluginOperations"
	// PhaseWaitingForPluginOperationsPartiallyFailed is PhaseWaitingForPluginOperations for a
	// run with errors.
	PhaseWaitingForPluginOperationsPartiallyFailed = "WaitingForPluginOperationsPartiallyFailed"
	// PhaseCompleted is that of a run that succeeded.
	PhaseCompleted = "Completed"
	// PhasePartiallyFailed is that of a run with errors of single objects.
	PhasePartiallyFailed = "PartiallyFailed"
	// PhaseFailed is that of a run that failed as a whole.
	PhaseFailed = "Failed"
	// PhaseDeleting is that of a backup that is being deleted.
	PhaseDeleting = "Deleting"
)

// Metadata is the part of an object's metadata that Velero and its plugins read.
type Metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               types.UID         `json:"uid"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp"`
}

// TypeMetaFor returns the type of a kind of Velero.
func TypeMetaFor(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "velero.io/v1", Kind: kind}
}

// PickFields returns the fields of a spec, as JSON, that have one of the names. The other
// fields of a Backup or Restore are Grapnel's own, and some are parameters of another
// plugin. An empty spec has no fields.
func PickFields(spec json.RawMessage, names []string) (map[string]json.RawMessage, error) {
	picked := map[string]json.RawMessage{}
	if len(spec) == 0 {
		return picked, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(spec, &all); err != nil {
		return nil, err // the caller adds the object
	}
	for _, name := range names {
		if value, ok := all[name]; ok {
			picked[name] = value
		}
	}
	return picked, nil
}
