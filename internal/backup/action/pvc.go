// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

var (
	persistentVolumeClaims = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumes                = schema.GroupResource{Resource: "persistentvolumes"}
)

// PVCAction adds the PersistentVolume of a PersistentVolumeClaim.
type PVCAction struct{}

var _ itemaction.BackupAction = PVCAction{}

// NewPVCAction returns the action. A claim that is not bound has no volume.
func NewPVCAction() PVCAction {
	return PVCAction{}
}

// Name implements itemaction.BackupAction.
func (PVCAction) Name() string { return "grapnel.dev/pvc" }

// AppliesTo implements itemaction.BackupAction.
func (PVCAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == persistentVolumeClaims
}

// RelatedResources implements itemaction.RelatedResourceLister.
func (PVCAction) RelatedResources() []schema.GroupResource {
	return []schema.GroupResource{volumes}
}

// Execute implements itemaction.BackupAction.
func (PVCAction) Execute(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
	volume, err := VolumeName(item.JSON)
	if err != nil || volume == "" {
		return itemaction.Result{}, err
	}
	return itemaction.Result{RelatedItems: []itemaction.RelatedItem{{Resource: volumes, Name: volume}}}, nil
}

// VolumeName returns the name of the PersistentVolume to which a claim, given as JSON, is
// bound, and "" if it is not bound.
func VolumeName(raw []byte) (string, error) {
	var claim struct {
		Spec struct {
			VolumeName string `json:"volumeName"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &claim); err != nil {
		return "", fmt.Errorf("decoding claim: %w", err)
	}
	return claim.Spec.VolumeName, nil
}
