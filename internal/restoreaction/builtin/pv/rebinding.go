// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package pv

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// RebindVolume returns what an existing PersistentVolume has to become for the
// restored claim to get its data back, and false if it is to be left alone. It
// is the case if the claim was bound to it in the archive and is gone since, so
// that the volume is released, and both objects name the same storage. Neither
// argument is changed.
//
// The result differs from existing in its claimRef only and keeps its
// resourceVersion: an update of a volume that changed meanwhile must fail.
func RebindVolume(existing, archived *unstructured.Unstructured, run *restoreaction.RestoreContext) (*unstructured.Unstructured, bool) {
	now, then := readVolumeInfo(existing.Object), readVolumeInfo(archived.Object)
	if !now.released || !then.bound || then.claim == "" || now.claim != then.claim {
		return nil, false
	}
	// It was released by the original claim, or by one that an earlier restore
	// made with the same mapping.
	if now.namespace != then.namespace && now.namespace != run.MapNamespace(then.namespace) {
		return nil, false
	}
	if !now.isStorageRetained() || !equality.Semantic.DeepEqual(volumeSource(existing), volumeSource(archived)) {
		return nil, false
	}
	rebound := existing.DeepCopy()
	resetClaimRef(field.GetMap(rebound.Object, "spec", "claimRef"), then, run)
	return rebound, true
}

// volumeSource returns the part of a volume that says where its data is: of the
// objects in its spec, the one that is named like the type of the volume.
func volumeSource(volume *unstructured.Unstructured) map[string]any {
	source := map[string]any{}
	for key, value := range field.GetMap(volume.Object, "spec") {
		switch key {
		case "capacity", "claimRef", "nodeAffinity":
			continue
		}
		if _, ok := value.(map[string]any); ok {
			source[key] = value
		}
	}
	return source
}
