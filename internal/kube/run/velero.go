// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// ToVelero returns what plugins see of a Backup or Restore. The caller adds the phase, and
// how long operations may take.
func ToVelero(object Object) (velero.Object, error) {
	shown := velero.Object{
		Metadata: velero.Metadata{
			Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(),
			Labels: object.GetLabels(), Annotations: object.GetAnnotations(), CreationTimestamp: object.GetCreationTimestamp(),
		},
	}
	if start := object.Run().StartTimestamp; start != nil {
		shown.Start = start.Time
	}
	var spec any
	switch object := object.(type) {
	case *v1alpha1.Backup:
		shown.Kind, spec, shown.StorageLocation = BackupKind.Name, object.Spec, object.Status.StorageLocation
		shown.Metadata.Labels = object.StoredLabels()
	case *v1alpha1.Restore:
		shown.Kind, spec, shown.BackupName = RestoreKind.Name, object.Spec, object.Status.BackupName
	}
	var err error
	if shown.Spec, err = json.Marshal(spec); err != nil {
		return velero.Object{}, fmt.Errorf("encoding the spec of %s %s: %w", shown.Kind, object.GetName(), err)
	}
	return shown, nil
}

// BackupToVelero returns what delete actions see of a Backup that has ended, in the form of
// velero.io/v1. Its name is the one that it is stored under, and its UID that of the Backup
// that made it.
func BackupToVelero(b *v1alpha1.Backup) ([]byte, error) {
	shown, err := ToVelero(b)
	if err != nil {
		return nil, err
	}
	shown.Metadata.Name, shown.Phase = b.StoredName(), "Deleting"
	if from := b.Spec.ImportedFrom; from != nil && from.BackupUID != "" {
		shown.Metadata.UID = types.UID(from.BackupUID) // by which actions may have kept something
	}
	return shown.ToJSON()
}
