// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Backup is the part of a Backup object that most actions need.
type Backup struct {
	// Name, Namespace and UID identify the object.
	Name, Namespace, UID string
	// Labels and Annotations are the object's metadata.
	Labels, Annotations map[string]string
	// Phase is the object's status.phase: "InProgress" for pre actions, the final
	// outcome ("Completed", "PartiallyFailed", "Failed", "Cancelled" ...) for post
	// actions. New phases may be added: treat unknown ones like a failure.
	Phase string
	// IncludedNamespaces and ExcludedNamespaces are the object's spec. An empty
	// IncludedNamespaces means all; entries may contain "*".
	IncludedNamespaces, ExcludedNamespaces []string
	// StorageLocation is the name of the BackupStorageLocation.
	StorageLocation string
	// Raw is the whole object as JSON.
	Raw []byte
}

// Restore is the part of a Restore object that most actions need.
type Restore struct {
	// Name, Namespace and UID identify the object.
	Name, Namespace, UID string
	// Labels and Annotations are the object's metadata.
	Labels, Annotations map[string]string
	// Phase is the object's status.phase: "InProgress" for pre actions, the final
	// outcome ("Completed", "PartiallyFailed", "Failed", "Cancelled" ...) for post
	// actions. New phases may be added: treat unknown ones like a failure.
	Phase string
	// BackupName is the name of the backup that is restored, even if the object names a
	// schedule instead.
	BackupName string
	// IncludedNamespaces and ExcludedNamespaces are the object's spec, with the names of
	// the namespaces in the backup. An empty IncludedNamespaces means all; entries may
	// contain "*".
	IncludedNamespaces, ExcludedNamespaces []string
	// NamespaceMapping is the object's spec. It maps namespace names in the backup to the
	// names that they are restored into. Other namespaces keep their names.
	NamespaceMapping map[string]string
	// Raw is the whole object as JSON.
	Raw []byte
}

// runObject has what all subjects have in common; S is the spec.
type runObject[S any] struct {
	Metadata struct {
		Name, Namespace, UID string
		Labels, Annotations  map[string]string
	}
	Spec   S
	Status struct{ Phase string }
}

func parseRunObject[S any](kind string, raw []byte) (*runObject[S], error) {
	if len(raw) == 0 {
		return nil, fmt.Errorf("parsing the %s object: %w", kind, errEmpty)
	}
	var out runObject[S]
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("parsing the %s object: %w", kind, err)
	}
	return &out, nil
}

var errEmpty = errors.New("it is empty")

// ParseBackup reads a Backup object from JSON. Unknown fields are ignored.
func ParseBackup(raw []byte) (Backup, error) {
	object, err := parseRunObject[struct {
		IncludedNamespaces, ExcludedNamespaces []string
		StorageLocation                        string
	}]("Backup", raw)
	if err != nil {
		return Backup{}, err
	}
	return Backup{
		Name: object.Metadata.Name, Namespace: object.Metadata.Namespace, UID: object.Metadata.UID,
		Labels: object.Metadata.Labels, Annotations: object.Metadata.Annotations,
		Phase:              object.Status.Phase,
		IncludedNamespaces: object.Spec.IncludedNamespaces, ExcludedNamespaces: object.Spec.ExcludedNamespaces,
		StorageLocation: object.Spec.StorageLocation,
		Raw:             raw,
	}, nil
}

// ParseRestore reads a Restore object from JSON. Unknown fields are ignored. BackupName is
// taken from the spec; it is empty if the spec names a schedule.
func ParseRestore(raw []byte) (Restore, error) {
	object, err := parseRunObject[struct {
		BackupName                             string
		IncludedNamespaces, ExcludedNamespaces []string
		NamespaceMapping                       map[string]string
	}]("Restore", raw)
	if err != nil {
		return Restore{}, err
	}
	return Restore{
		Name: object.Metadata.Name, Namespace: object.Metadata.Namespace, UID: object.Metadata.UID,
		Labels: object.Metadata.Labels, Annotations: object.Metadata.Annotations,
		Phase:              object.Status.Phase,
		BackupName:         object.Spec.BackupName,
		IncludedNamespaces: object.Spec.IncludedNamespaces, ExcludedNamespaces: object.Spec.ExcludedNamespaces,
		NamespaceMapping: object.Spec.NamespaceMapping,
		Raw:              raw,
	}, nil
}
