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
	pods          = schema.GroupResource{Resource: "pods"}
	claimResource = schema.GroupResource{Resource: "persistentvolumeclaims"}
	priorities    = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
)

// PodAction adds the claims and the PriorityClass of a Pod.
type PodAction struct{}

var _ itemaction.BackupAction = PodAction{}

// NewPodAction returns the action.
func NewPodAction() PodAction { return PodAction{} }

// Name implements itemaction.BackupAction.
func (PodAction) Name() string { return "grapnel.dev/pod" }

// AppliesTo implements itemaction.BackupAction.
func (PodAction) AppliesTo(resource schema.GroupResource) bool { return resource == pods }

// RelatedResources implements itemaction.RelatedResourceLister.
func (PodAction) RelatedResources() []schema.GroupResource {
	return []schema.GroupResource{claimResource, priorities}
}

// podSpec is the part of a Pod that names other objects.
type podSpec struct {
	Spec struct {
		PriorityClassName string `json:"priorityClassName"`
		Volumes           []struct {
			PersistentVolumeClaim *struct {
				ClaimName string `json:"claimName"`
			} `json:"persistentVolumeClaim"`
			Name      string    `json:"name"`
			Ephemeral *struct{} `json:"ephemeral"`
		} `json:"volumes"`
	} `json:"spec"`
}

// Execute implements itemaction.BackupAction.
func (PodAction) Execute(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
	var pod podSpec
	if err := json.Unmarshal(item.JSON, &pod); err != nil {
		return itemaction.Result{}, fmt.Errorf("decoding pod: %w", err)
	}
	var result itemaction.Result
	for _, volume := range pod.Spec.Volumes {
		ref := itemaction.RelatedItem{Resource: claimResource, Namespace: item.Namespace}
		switch {
		case volume.PersistentVolumeClaim != nil:
			ref.Name = volume.PersistentVolumeClaim.ClaimName
		case volume.Ephemeral != nil:
			// Kubernetes gives this name to the claim of an ephemeral volume.
			ref.Name, ref.Optional = item.Name+"-"+volume.Name, true
		}
		if ref.Name != "" {
			result.RelatedItems = append(result.RelatedItems, ref)
		}
	}
	if class := pod.Spec.PriorityClassName; class != "" {
		result.RelatedItems = append(result.RelatedItems, itemaction.RelatedItem{Resource: priorities, Name: class})
	}
	return result, nil
}
