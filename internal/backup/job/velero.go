// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
)

// veleroManifest is the velero.io/v1 Backup that a Velero server reads. It
// carries no expiration, so that Velero does not collect our backups.
type veleroManifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        veleroMetadata  `json:"metadata"`
	Spec            json.RawMessage `json:"spec"`
	Status          veleroStatus    `json:"status"`
}

type veleroMetadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               types.UID         `json:"uid"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp"`
}

type veleroStatus struct {
	Version             int            `json:"version"`
	FormatVersion       string         `json:"formatVersion"`
	Phase               string         `json:"phase"`
	StartTimestamp      metav1.Time    `json:"startTimestamp"`
	CompletionTimestamp metav1.Time    `json:"completionTimestamp"`
	Warnings            int            `json:"warnings,omitempty"`
	Errors              int            `json:"errors,omitempty"`
	Progress            veleroProgress `json:"progress"`
}

type veleroProgress struct {
	TotalItems    int `json:"totalItems"`
	ItemsBackedUp int `json:"itemsBackedUp"`
}

// Phase returns the phase of a backup that was committed.
func (r Result) Phase() string {
	if r.Errors > 0 {
		return "PartiallyFailed"
	}
	return "Completed"
}

// veleroBackup returns velero-backup.json.
func veleroBackup(req Request, result Result) ([]byte, error) {
	labels := map[string]string{"velero.io/storage-location": req.StorageLocation}
	maps.Copy(labels, req.Labels)
	start := metav1.NewTime(req.Start)
	data, err := json.MarshalIndent(veleroManifest{
		TypeMeta: metav1.TypeMeta{APIVersion: "velero.io/v1", Kind: "Backup"},
		Metadata: veleroMetadata{
			Name: req.Name, Namespace: req.Namespace, UID: types.UID(req.UID),
			Labels: labels, Annotations: req.Annotations, CreationTimestamp: start,
		},
		Spec: req.Spec,
		Status: veleroStatus{
			Version: 1, FormatVersion: archive.FormatVersion, Phase: result.Phase(),
			StartTimestamp: start, CompletionTimestamp: metav1.NewTime(result.Completed),
			Warnings: result.Warnings, Errors: result.Errors,
			Progress: veleroProgress{TotalItems: result.Items, ItemsBackedUp: result.Items},
		},
	}, "", "    ")
	if err != nil {
		return nil, fmt.Errorf("writing the Velero manifest: %w", err)
	}
	return data, nil
}

// earlier reads the result of an attempt that had already succeeded.
func earlier(ctx context.Context, store *backupstore.Store, name string) (Result, error) {
	data, _, err := store.Manifest(ctx, name)
	if err != nil {
		return Result{}, fmt.Errorf("reading the manifest of an earlier attempt: %w", err)
	}
	var manifest veleroManifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return Result{}, fmt.Errorf("reading the manifest of an earlier attempt: %w", err)
	}
	status := manifest.Status
	completed := status.CompletionTimestamp.Time
	if completed.IsZero() {
		completed = time.Unix(0, 0)
	}
	return Result{
		Items: status.Progress.ItemsBackedUp, Warnings: status.Warnings, Errors: status.Errors, Completed: completed,
	}, nil
}
