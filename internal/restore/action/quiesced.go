// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// workloadKinds are the workloads that can be quiesced.
var workloadKinds = map[schema.GroupResource]quiesce.WorkloadKind{
	{Group: "apps", Resource: "deployments"}:  quiesce.Deployment,
	{Group: "apps", Resource: "statefulsets"}: quiesce.StatefulSet,
	{Group: "apps", Resource: "replicasets"}:  quiesce.ReplicaSet,
	{Group: "apps", Resource: "daemonsets"}:   quiesce.DaemonSet,
	{Group: "batch", Resource: "cronjobs"}:    quiesce.CronJob,
	{Group: "batch", Resource: "jobs"}:        quiesce.Job,
}

// QuiescedAction warns about workloads that were archived while a backup, possibly
// another, overlapping one, had stopped them. They are restored stopped, and stay so unless
// an action of the restore starts them.
type QuiescedAction struct{}

var _ itemaction.RestoreAction = QuiescedAction{}

// NewQuiescedAction returns the action.
func NewQuiescedAction() QuiescedAction { return QuiescedAction{} }

// Name implements itemaction.RestoreAction.
func (QuiescedAction) Name() string { return "grapnel.dev/quiesced" }

// AppliesTo implements itemaction.RestoreAction.
func (QuiescedAction) AppliesTo(resource schema.GroupResource) bool {
	return workloadKinds[resource] != ""
}

// Execute implements itemaction.RestoreAction.
func (QuiescedAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	w := toWorkload(workloadKinds[item.Resource.GroupResource()], item.Object.Object)
	s, stopped := quiesce.ArchivedState(w)
	if !stopped || item.Restore.HasUnquiesceAction {
		return itemaction.Result{}, nil
	}
	had, advice := "was not suspended", "resume it by hand"
	switch w.Kind {
	case quiesce.CronJob, quiesce.Job:
	case quiesce.DaemonSet:
		had, advice = "ran on nodes", "remove "+quiesce.NodeSelectorKey+" from its node selector"
	default:
		had, advice = fmt.Sprintf("had %d replicas", s.Replicas), "scale it by hand"
	}
	return itemaction.Result{Warnings: []string{"it was restored stopped, because it was archived while a backup had it quiesced; before that it " +
		had + ". No action of this restore starts it: " + advice + ", or restore it with a PostRestoreAction of quiesce"}}, nil
}

// toWorkload returns the fields of an object that show whether it is stopped.
func toWorkload(kind quiesce.WorkloadKind, object map[string]any) quiesce.Workload {
	return quiesce.Workload{
		Ref:          quiesce.Ref{Kind: kind},
		Annotations:  map[string]string{quiesce.Annotation: Get[string](object, "metadata", "annotations", quiesce.Annotation)},
		Replicas:     replicaCount(object),
		Suspend:      Get[bool](object, "spec", "suspend"),
		NodeSelector: map[string]string{quiesce.NodeSelectorKey: Get[string](object, "spec", "template", "spec", "nodeSelector", quiesce.NodeSelectorKey)},
	}
}

func replicaCount(object map[string]any) int32 {
	if Has(object, "spec", "replicas") && GetInt(object, "spec", "replicas") == 0 {
		return 0
	}
	return 1 // or more
}
