// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package velero

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/archive"
)

// Object is a Backup or Restore as item actions see it, in every call for it.
type Object struct {
	// Kind is "Backup" or "Restore".
	Kind string
	// Metadata has the labels and annotations of the object itself. Start, if known,
	// becomes its CreationTimestamp.
	Metadata Metadata
	// Spec is the spec of the object as JSON. Actions do not see the fields of Grapnel's
	// own. It is empty if the object no longer exists.
	Spec json.RawMessage
	// StorageLocation is where a Backup is stored, BackupName what a Restore restores.
	StorageLocation, BackupName string
	// OperationTimeout is the default timeout of operations if the spec has none; 0 means
	// Velero's default.
	OperationTimeout time.Duration
	// Phase is one of the phases of this package.
	Phase string
	// Start is when the run began; zero if unknown.
	Start time.Time
}

// StorageLocationLabel is the label by which Velero finds the backups of a location.
const StorageLocationLabel = "velero.io/storage-location"

// Velero's server sets these, and its plugins therefore rely on them: an annotation with
// the timeout of waiting for objects of the cluster, and a field of the spec.
const (
	resourceTimeoutAnnotation = "velero.io/resource-timeout"
	defaultResourceTimeout    = "10m0s"
	defaultOperationTimeout   = 4 * time.Hour
)

// encodedObject is a Backup or Restore of velero.io/v1.
type encodedObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        Metadata                   `json:"metadata"`
	Spec            map[string]json.RawMessage `json:"spec"`
	Status          encodedStatus              `json:"status"`
}

type encodedStatus struct {
	Version        int          `json:"version,omitempty"`
	FormatVersion  string       `json:"formatVersion,omitempty"`
	Phase          string       `json:"phase"`
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`
}

// ToJSON returns the object as velero.io/v1 JSON.
func (s Object) ToJSON() ([]byte, error) {
	out := encodedObject{TypeMeta: TypeMetaFor(s.Kind), Metadata: s.Metadata, Status: encodedStatus{Phase: s.Phase}}
	if !s.Start.IsZero() {
		out.Metadata.CreationTimestamp = metav1.NewTime(s.Start)
		out.Status.StartTimestamp = &out.Metadata.CreationTimestamp
	}
	out.Metadata.Annotations = maps.Clone(s.Metadata.Annotations)
	delete(out.Metadata.Annotations, corev1.LastAppliedConfigAnnotation)
	fields := RestoreFields()
	if s.Kind == "Backup" {
		fields = BackupFields()
		out.Status.Version, out.Status.FormatVersion = 1, archive.FormatVersion
		out.Metadata.Labels = withDefaultEntry(s.Metadata.Labels, StorageLocationLabel, s.StorageLocation)
		out.Metadata.Annotations = withDefaultEntry(out.Metadata.Annotations, resourceTimeoutAnnotation, defaultResourceTimeout)
	}
	var err error
	if out.Spec, err = PickFields(s.Spec, fields); err != nil {
		return nil, fmt.Errorf("describing %s %s to item actions: reading its spec: %w", s.Kind, s.Metadata.Name, err)
	}
	if err := s.setVolumeGroup(out.Spec); err != nil {
		return nil, fmt.Errorf("describing %s %s to item actions: reading spec.volumes: %w", s.Kind, s.Metadata.Name, err)
	}
	s.setOperatorFields(out.Spec)
	data, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("describing %s %s to item actions: %w", s.Kind, s.Metadata.Name, err)
	}
	return data, nil
}

// setVolumeGroup adds the field of Velero that is spec.volumes.group of a Backup.
func (s Object) setVolumeGroup(spec map[string]json.RawMessage) error {
	own, err := PickFields(s.Spec, []string{"volumes"})
	if s.Kind != "Backup" || err != nil || len(own) == 0 {
		return err
	}
	var volumes struct {
		Group string `json:"group"`
	}
	if err := json.Unmarshal(own["volumes"], &volumes); err != nil || volumes.Group == "" {
		return err
	}
	spec["volumeGroupSnapshotLabelKey"], err = json.Marshal(volumes.Group)
	return err
}

// setOperatorFields adds the settings of the operator to a spec.
func (s Object) setOperatorFields(spec map[string]json.RawMessage) {
	set := func(field, value string) { spec[field], _ = json.Marshal(value) } //nolint:errchkjson // a string can always be encoded
	if s.StorageLocation != "" {
		set("storageLocation", s.StorageLocation)
	}
	if s.BackupName != "" {
		set("backupName", s.BackupName)
	}
	if _, said := spec["itemOperationTimeout"]; !said {
		set("itemOperationTimeout", cmp.Or(s.OperationTimeout, defaultOperationTimeout).String())
	}
	if string(spec["existingResourcePolicy"]) == `"recreate"` {
		// Existing objects may be changed: Velero has no other word for it.
		set("existingResourcePolicy", "update")
	}
}

// withDefaultEntry returns labels or annotations with an additional entry, unless they
// already have the key or the value is empty.
func withDefaultEntry(have map[string]string, key, value string) map[string]string {
	if _, there := have[key]; there || value == "" {
		return have
	}
	out := map[string]string{key: value}
	maps.Copy(out, have)
	return out
}
