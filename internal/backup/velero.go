// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// veleroManifest is the velero.io/v1 Backup that a Velero server reads. It has no
// expiration, so that Velero does not garbage-collect our backups.
type veleroManifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        velero.Metadata `json:"metadata"`
	Spec            json.RawMessage `json:"spec"`
	Status          veleroStatus    `json:"status"`
}

type veleroStatus struct {
	Version             int             `json:"version"`
	FormatVersion       string          `json:"formatVersion"`
	Phase               string          `json:"phase"`
	StartTimestamp      metav1.Time     `json:"startTimestamp"`
	CompletionTimestamp *metav1.Time    `json:"completionTimestamp,omitempty"`
	Warnings            int             `json:"warnings,omitempty"`
	Errors              int             `json:"errors,omitempty"`
	Progress            *veleroProgress `json:"progress,omitempty"`

	OperationsAttempted int `json:"backupItemOperationsAttempted,omitempty"`
	OperationsCompleted int `json:"backupItemOperationsCompleted,omitempty"`
	OperationsFailed    int `json:"backupItemOperationsFailed,omitempty"`

	// MissingNamespaces is an extension of Grapnel, which a restarted operator reports
	// again.
	MissingNamespaces []string `json:"missingNamespaces,omitempty"`
}

type veleroProgress struct {
	TotalItems    int `json:"totalItems"`
	ItemsBackedUp int `json:"itemsBackedUp"`
}

// Phase returns the phase of a committed backup.
func (r Result) Phase() string {
	if r.Errors > 0 {
		return velero.PhasePartiallyFailed
	}
	return velero.PhaseCompleted
}

// encodeVeleroManifest returns velero-backup.json of a backup with a number of operations.
// More may have been started than are known to have ended.
func encodeVeleroManifest(req Request, result Result, operations int, ended []velero.Operation) ([]byte, error) {
	manifest := newVeleroManifest(req)
	maps.Copy(manifest.Metadata.Labels, result.Labels)
	completed := metav1.NewTime(result.Completed)
	manifest.Status.Phase, manifest.Status.CompletionTimestamp = result.Phase(), &completed
	manifest.Status.Warnings, manifest.Status.Errors = result.Warnings, result.Errors
	manifest.Status.MissingNamespaces = result.MissingNamespaces
	manifest.Status.Progress = &veleroProgress{TotalItems: result.Items, ItemsBackedUp: result.Items}
	manifest.Status.OperationsAttempted, manifest.Status.OperationsFailed = operations, operations
	for _, operation := range ended {
		if operation.Failure() == nil {
			manifest.Status.OperationsCompleted++
			manifest.Status.OperationsFailed--
		}
	}
	data, err := json.MarshalIndent(manifest, "", "    ")
	if err != nil {
		return nil, fmt.Errorf("writing the Velero manifest: %w", err)
	}
	return data, nil
}

// newVeleroManifest returns the manifest of a backup in progress.
func newVeleroManifest(req Request) veleroManifest {
	labels := map[string]string{velero.StorageLocationLabel: req.StorageLocation}
	maps.Copy(labels, req.Labels)
	annotations := map[string]string{}
	maps.Copy(annotations, req.Annotations)
	annotations[storage.ManifestAnnotation] = strconv.Itoa(storage.ManifestVersion)
	start := metav1.NewTime(req.Start)
	return veleroManifest{
		TypeMeta: velero.TypeMetaFor("Backup"),
		Metadata: velero.Metadata{
			Name: req.Name, Namespace: req.Namespace, UID: types.UID(req.UID),
			Labels: labels, Annotations: annotations, CreationTimestamp: start,
		},
		Spec: req.Spec,
		Status: veleroStatus{
			Version: 1, FormatVersion: archive.FormatVersion, Phase: velero.PhaseInProgress, StartTimestamp: start,
		},
	}
}

// readCommittedResult reads the result of an attempt that has already succeeded.
func readCommittedResult(ctx context.Context, store *storage.Store, req Request) (Result, error) {
	data, _, err := store.ReadManifest(ctx, req.Name)
	if err != nil {
		return Result{}, fmt.Errorf("reading the manifest of an earlier attempt: %w", err)
	}
	var manifest veleroManifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return Result{}, fmt.Errorf("reading the manifest of an earlier attempt: %w", err)
	}
	status := manifest.Status
	result := Result{
		Warnings: status.Warnings, Errors: status.Errors, Completed: time.Unix(0, 0), MissingNamespaces: status.MissingNamespaces,
	}
	if t := status.CompletionTimestamp; t != nil && !t.IsZero() {
		result.Completed = t.Time
	}
	if status.Progress != nil {
		result.Items = status.Progress.ItemsBackedUp
	}
	result.Labels, _ = labelsToAdd(newVeleroManifest(req).Metadata.Labels, manifest.Metadata.Labels)
	err = store.GetJSON(ctx, req.Name, storage.Results, &result.Problems)
	if err != nil && !errors.Is(err, objectstore.ErrNotExist) && !errors.As(err, new(*storage.CorruptError)) {
		return Result{}, fmt.Errorf("reading the results of an earlier attempt: %w", err)
	}
	return result, nil
}
