// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// uidLabels contain the UID of the Job, under the current and the legacy name.
var uidLabels = []string{"batch.kubernetes.io/controller-uid", "controller-uid"}

// JobAction lets Jobs start again. The API server gives each Job a selector derived from
// its UID, and rejects one that is derived from another UID. A finished Job, successful or
// not, is skipped, because creating it runs it again. An unfinished Job starts from its
// beginning, or stays suspended.
//
// A selector managed by the user (spec.manualSelector) is kept.
type JobAction struct{}

var _ itemaction.RestoreAction = JobAction{}

// NewJobAction returns the action.
func NewJobAction() JobAction { return JobAction{} }

// Name implements itemaction.RestoreAction.
func (JobAction) Name() string { return "grapnel.dev/job" }

// AppliesTo implements itemaction.RestoreAction.
func (JobAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Group: "batch", Resource: "jobs"}
}

// Execute implements itemaction.RestoreAction.
func (JobAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	if isJobFinished(item.Archived.Object) {
		return itemaction.Result{Skip: "the Job had finished, and would run again"}, nil
	}
	object := item.Object.Object
	if Get[bool](object, "spec", "manualSelector") {
		return itemaction.Result{}, nil
	}
	// Jobs without their own labels get those of their template.
	RemoveKeys(object, []string{"metadata", "labels"}, uidLabels...)
	RemoveKeys(object, []string{"spec", "template", "metadata", "labels"}, uidLabels...)
	RemoveKeys(object, []string{"spec", "selector", "matchLabels"}, uidLabels...)
	RemoveKeys(object, []string{"spec", "selector"})
	return itemaction.Result{}, nil
}

func isJobFinished(job map[string]any) bool {
	if Has(job, "status", "completionTime") {
		return true
	}
	for condition := range EachMap(job, "status", "conditions") {
		kind := Get[string](condition, "type")
		if (kind == "Complete" || kind == "Failed") && Get[string](condition, "status") == "True" {
			return true
		}
	}
	return false
}
