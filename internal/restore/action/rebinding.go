// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// RebindVolume returns an update of an existing PersistentVolume with which the restored
// claim gets its data back, and false if the volume must not be changed. An update is
// returned if the claim was bound to the volume in the archive and was deleted since, so
// that the volume is released, and if both objects refer to the same storage. Neither
// argument is changed.
//
// The result differs from existing only in its claimRef and keeps its resourceVersion: the
// update must fail if the volume changed meanwhile.
func RebindVolume(existing, archived *unstructured.Unstructured, run *itemaction.RestoreContext) (*unstructured.Unstructured, bool) {
	now, then := readVolumeInfo(existing.Object), readVolumeInfo(archived.Object)
	if !now.released || !then.bound || then.claim == "" || now.claim != then.claim {
		return nil, false
	}
	// The volume was released by the original claim, or by one that an earlier restore
	// created with the same mapping.
	if now.namespace != then.namespace && now.namespace != run.MapNamespace(then.namespace) {
		return nil, false
	}
	if !now.isStorageRetained() || !equality.Semantic.DeepEqual(volumeSource(existing), volumeSource(archived)) {
		return nil, false
	}
	rebound := existing.DeepCopy()
	resetClaimRef(GetMap(rebound.Object, "spec", "claimRef"), then, run)
	return rebound, true
}

// volumeSource returns the part of a volume that refers to its data: the object in its spec
// that is named like the type of the volume.
func volumeSource(volume *unstructured.Unstructured) map[string]any {
	source := map[string]any{}
	for key, value := range GetMap(volume.Object, "spec") {
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
