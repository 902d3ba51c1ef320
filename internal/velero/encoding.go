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

// Object is a Backup or Restore as item actions see it, in every call that is made for it.
type Object struct {
	// Kind is "Backup" or "Restore".
	Kind string
	// Metadata has the labels and annotations of the object itself. If Start is known,
	// that is its CreationTimestamp.
	Metadata Metadata
	// Spec is the one of the object as ToJSON, with fields of Grapnel's own that actions
	// do not see; empty if the object is gone.
	Spec json.RawMessage
	// StorageLocation is where a Backup is stored, BackupName what a Restore restores.
	StorageLocation, BackupName string
	// OperationTimeout is how long an operation may take of which the spec says nothing;
	// 0 means Velero's default.
	OperationTimeout time.Duration
	// Phase is one of the phases that this package has.
	Phase string
	// Start is when the run began; zero if that is not known.
	Start time.Time
}

// StorageLocationLabel is how Velero finds the backups of a location.
const StorageLocationLabel = "velero.io/storage-location"

// What Velero's server fills in, and its plugins therefore count on: an annotation that
// says how long they may wait for objects of the cluster, and a field of the spec.
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

// ToJSON returns the object in the form of velero.io/v1.
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
	s.setOperatorFields(out.Spec)
	data, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("describing %s %s to item actions: %w", s.Kind, s.Metadata.Name, err)
	}
	return data, nil
}

// setOperatorFields adds to a spec what the operator chose.
func (s Object) setOperatorFields(spec map[string]json.RawMessage) {
	set := func(field, value string) { spec[field], _ = json.Marshal(value) } //nolint:errchkjson // a string always can be
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
		// What exists may be changed: Velero has no other word for it.
		set("existingResourcePolicy", "update")
	}
}

// withDefaultEntry returns labels or annotations with one more, if they do not have it and it has a
// value.
func withDefaultEntry(have map[string]string, key, value string) map[string]string {
	if _, there := have[key]; there || value == "" {
		return have
	}
	out := map[string]string{key: value}
	maps.Copy(out, have)
	return out
}
