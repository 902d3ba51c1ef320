// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pod adds the claims and the PriorityClass of a Pod.
package pod

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

var (
	pods       = schema.GroupResource{Resource: "pods"}
	claims     = schema.GroupResource{Resource: "persistentvolumeclaims"}
	priorities = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
)

// Action is the action; see New.
type Action struct{}

var _ itemaction.Action = Action{}

// New returns the action.
func New() Action { return Action{} }

// Name implements itemaction.Action.
func (Action) Name() string { return "grapnel.dev/pod" }

// AppliesTo implements itemaction.Action.
func (Action) AppliesTo(resource schema.GroupResource) bool { return resource == pods }

// RelatedResources implements itemaction.Action.
func (Action) RelatedResources() []schema.GroupResource {
	return []schema.GroupResource{claims, priorities}
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

// Execute implements itemaction.Action.
func (Action) Execute(_ context.Context, item itemaction.Item) (itemaction.Result, error) {
	var pod podSpec
	if err := json.Unmarshal(item.JSON, &pod); err != nil {
		return itemaction.Result{}, fmt.Errorf("decoding pod: %w", err)
	}
	var result itemaction.Result
	for _, volume := range pod.Spec.Volumes {
		ref := itemaction.RelatedItem{Resource: claims, Namespace: item.Namespace}
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
