// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldChange is what a Patch does to the field that quiesces a workload.
type FieldChange int

const (
	// KeepField leaves the field unchanged.
	KeepField FieldChange = iota
	// QuiesceField quiesces the workload.
	QuiesceField
	// RestoreField restores the value from before.
	RestoreField
)

// Patch is one write of one workload.
type Patch struct {
	// State is the new state; nil removes it.
	State *State
	// Change is the change to the field in the same write.
	Change FieldChange
	// Replicas is the value that RestoreField writes.
	Replicas int32
	// FieldManagers are the managers that own the field after RestoreField.
	FieldManagers []metav1.ManagedFieldsEntry
}

// JSON returns p as a JSON merge patch for w. The API server rejects it with a conflict if w has
// changed since, or is another object.
func (p Patch) JSON(w Workload) ([]byte, error) {
	mark, text := any(nil), any(nil)
	if p.State != nil {
		encoded, err := json.Marshal(p.State)
		if err != nil {
			return nil, fmt.Errorf("encoding the state of %s: %w", w.Ref, err)
		}
		text = string(encoded)
		if !p.State.Expired {
			mark = "true"
		}
	}
	patch := map[string]any{"metadata": map[string]any{
		"uid": w.UID, "resourceVersion": w.ResourceVersion,
		"annotations": map[string]any{Annotation: text}, "labels": map[string]any{Label: mark},
	}}
	if p.Change != KeepField {
		patch["spec"] = p.specMergePatch(w.Kind)
	}
	return json.Marshal(patch)
}

// specMergePatch returns the part of the patch that changes the spec.
func (p Patch) specMergePatch(kind WorkloadKind) map[string]any {
	stop := p.Change == QuiesceField
	switch kind {
	case CronJob, Job:
		return map[string]any{"suspend": stop}
	case DaemonSet:
		park := any(nil)
		if stop {
			park = "true"
		}
		selector := map[string]any{"nodeSelector": map[string]any{NodeSelectorKey: park}}
		return map[string]any{"template": map[string]any{"spec": selector}}
	default:
		if stop {
			return map[string]any{"replicas": 0}
		}
		return map[string]any{"replicas": p.Replicas}
	}
}
