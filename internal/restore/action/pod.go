// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

var (
	claims     = schema.GroupResource{Resource: "persistentvolumeclaims"}
	priorities = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}

	// recreatingOwners has, by kind, the owners that create their own Pods in addition to a
	// restored one.
	recreatingOwners = map[string]schema.GroupResource{
		"DaemonSet": {Group: "apps", Resource: "daemonsets"},
		"Job":       {Group: "batch", Resource: "jobs"},
	}
)

// PodAction makes Pods acceptable to another cluster, and skips those that must not be
// restored.
//
// Skipped: Pods that ended (Succeeded, Failed), mirrors of static Pods, which the kubelet
// creates, and Pods of a DaemonSet or a Job that is in the archive too. A DaemonSet creates
// one for each node of this cluster. A restored Job creates its own Pods and would not
// adopt this one, so its work would be done twice. Pods of all other owners are restored:
// ReplicaSets, ReplicationControllers and StatefulSets adopt them by their selectors
// instead of creating new ones.
//
// Removed: the node; what admission computes (priority, preemptionPolicy, overhead),
// because a different value is rejected; ephemeral containers, which cannot be set on
// creation; and the volume with the token of the ServiceAccount that admission had added,
// with its mounts, because admission adds it again. That volume is kept if a container
// mounts it at a path of its own choice.
type PodAction struct{}

var _ itemaction.RestoreAction = PodAction{}

// NewPodAction returns the action.
func NewPodAction() PodAction { return PodAction{} }

// Name implements itemaction.RestoreAction.
func (PodAction) Name() string { return "grapnel.dev/pod" }

// AppliesTo implements itemaction.RestoreAction.
func (PodAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "pods"}
}

// Execute implements itemaction.RestoreAction.
func (PodAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	if reason := skipReason(item); reason != "" {
		return itemaction.Result{Skip: reason}, nil
	}
	object := item.Object.Object
	RemoveKeys(object, []string{"spec"}, "nodeName", "priority", "preemptionPolicy", "overhead", "ephemeralContainers")
	removeTokenVolume(GetMap(object, "spec"))
	return itemaction.Result{RelatedItems: listRelatedItems(item)}, nil
}

// skipReason returns why a Pod is not restored, or "".
func skipReason(item *itemaction.RestoreItem) string {
	archived := item.Archived
	owner := item.ArchivedController()
	switch phase := Get[string](archived.Object, "status", "phase"); {
	case phase == "Succeeded" || phase == "Failed":
		return "the Pod had ended (" + phase + ")"
	case owner.Kind == "Node" || Has(archived.Object, "metadata", "annotations", "kubernetes.io/config.mirror"):
		return "the kubelet creates it from a file on its node"
	}
	if resource, ok := recreatingOwners[owner.Kind]; ok && item.Restore.IsArchived(resource, archived.GetNamespace(), owner.Name) {
		return owner.Kind + " " + owner.Name + " creates new ones"
	}
	return ""
}

// listRelatedItems returns the objects of the archive that must exist before the Pod.
func listRelatedItems(item *itemaction.RestoreItem) []itemaction.RelatedItem {
	var refs []itemaction.RelatedItem
	add := func(ref itemaction.RelatedItem) {
		if ref.Name != "" && item.Restore.IsArchived(ref.Resource, ref.Namespace, ref.Name) {
			refs = append(refs, ref)
		}
	}
	spec := GetMap(item.Archived.Object, "spec")
	add(itemaction.RelatedItem{Resource: priorities, Name: Get[string](spec, "priorityClassName")})
	for volume := range EachMap(spec, "volumes") {
		claim := Get[string](volume, "persistentVolumeClaim", "claimName")
		add(itemaction.RelatedItem{Resource: claims, Namespace: item.Archived.GetNamespace(), Name: claim})
	}
	return refs
}
