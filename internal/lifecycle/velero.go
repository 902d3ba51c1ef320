// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// ToVelero returns the object that plugins receive for a Backup or Restore. The caller adds the
// phase and the timeout of operations.
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

// BackupToVelero returns the object that delete actions receive for a finished Backup, in the
// form of velero.io/v1. It has the name under which the backup is stored, and the UID of the
// Backup that created it.
func BackupToVelero(b *v1alpha1.Backup) ([]byte, error) {
	shown, err := ToVelero(b)
	if err != nil {
		return nil, err
	}
	shown.Metadata.Name, shown.Phase = b.StoredName(), velero.PhaseDeleting
	if from := b.Spec.ImportedFrom; from != nil && from.BackupUID != "" {
		shown.Metadata.UID = types.UID(from.BackupUID) // actions may have stored data under this UID
	}
	return shown.ToJSON()
}
