// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupimport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

const (
	// MaxManifestBytes is the size limit of a manifest: more than any object of a
	// cluster.
	MaxManifestBytes = 1 << 20

	manifestName = "velero-backup.json"
	// MaxBackupName is the longest name of a Backup object.
	MaxBackupName = 200
)

// uidPattern is the pattern of spec.importedFrom.backupUID.
var uidPattern = regexp.MustCompile(`^[A-Za-z0-9-]{0,64}$`)

// Source is where a backup was found.
type Source struct {
	// Namespace and Location are those of the BackupStorageLocation, and Prefix is its
	// prefix.
	Namespace, Location, Prefix string
	// Name of the backup in the location.
	Name string
	// Redact, if set, removes secrets from a text.
	Redact func(string) string
}

// manifest has the fields that are read from velero-backup.json.
type manifest struct {
	Kind     string          `json:"kind"`
	Metadata metadata        `json:"metadata"`
	Spec     json.RawMessage `json:"spec"`
	Status   status          `json:"status"`
}

type metadata struct {
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	CreationTimestamp *metav1.Time      `json:"creationTimestamp"`
}

// BackupFromManifest returns the object of a stored backup: its metadata, spec and final status.
// velero is the content of velero-backup.json; grapnel is nil for a backup that Grapnel
// did not create. Both results are nil if the backup has not finished yet. The error is a
// *storage.CorruptError if the manifest cannot be parsed or belongs to another backup.
//
// The conditions have no observedGeneration, because the object does not exist yet.
func BackupFromManifest(from Source, velero []byte, grapnel *storage.GrapnelManifest) (*v1alpha1.Backup, error) {
	m, reason := parseManifest(velero)
	switch {
	case reason != "":
	case m.Metadata.Name == "":
		reason = "names no backup"
	case m.Metadata.Name != from.Name:
		reason = fmt.Sprintf("names another backup, %.253q", m.Metadata.Name)
	case !uidPattern.MatchString(m.Metadata.UID):
		reason = fmt.Sprintf("has the UID %.80q, which is not a valid UID of a Backup", m.Metadata.UID)
	}
	var ended outcome
	if reason == "" {
		ended, reason = m.Status.outcomeForPhase()
	}
	if reason == "" && ended.phase == "" {
		return nil, nil
	}
	var spec v1alpha1.BackupSpec
	if reason == "" {
		spec, reason = specFromManifest(m.Spec, grapnel != nil)
	}
	if reason != "" {
		return nil, newCorruptError(from.Name, reason)
	}
	uid := m.Metadata.UID
	if grapnel != nil {
		uid = grapnel.BackupUID
	}
	if !uidPattern.MatchString(uid) {
		return nil, &storage.CorruptError{
			Name: from.Name, File: from.Name + "-grapnel.json", Reason: fmt.Sprintf("has the UID %.80q, which is not a valid UID of a Backup", uid),
		}
	}
	b := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: from.Namespace, Name: from.Name,
			Labels: allowedLabels(m.Metadata.Labels), Annotations: allowedAnnotations(m.Metadata.Annotations),
		},
		Spec: spec,
	}
	b.Spec.StorageLocation, b.Spec.DeletionPolicy = from.Location, v1alpha1.DeletionPolicyRetain
	b.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: from.Location, BackupUID: uid}
	if len(b.Name) > MaxBackupName {
		RenameBackup(b)
	}
	if reason := m.setBackupStatus(b, from, ended, grapnel); reason != "" {
		return nil, newCorruptError(from.Name, reason)
	}
	return b, nil
}

// RenameBackup gives an imported Backup another name, because its own is taken in this cluster or
// too long for an object. The new name is always the same for the same backup and location.
func RenameBackup(b *v1alpha1.Backup) {
	from := b.Spec.ImportedFrom
	from.BackupName = cmp.Or(from.BackupName, b.Name)
	b.Name = names.ChildName(from.BackupName, MaxBackupName, from.StorageLocation, from.BackupName, from.BackupUID)
}

func newCorruptError(name, reason string) error {
	return &storage.CorruptError{Name: name, File: manifestName, Reason: reason}
}

// parseManifest parses a manifest, or returns what is wrong with it.
func parseManifest(data []byte) (m manifest, reason string) {
	if len(data) > MaxManifestBytes {
		return m, fmt.Sprintf("has %d bytes, more than the limit of %d", len(data), MaxManifestBytes)
	}
	if !json.Valid(data) {
		return m, "is not JSON"
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, "is not the manifest of a backup: " + executor.OneLine(err.Error())
	}
	if m.Kind != "Backup" {
		return m, fmt.Sprintf("is not the manifest of a backup, but has the kind %.63q", m.Kind)
	}
	return m, ""
}
