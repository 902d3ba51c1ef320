// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

var (
	claims     = schema.GroupResource{Resource: "persistentvolumeclaims"}
	priorities = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}

	// replaces has, by kind, the owners that make Pods of their own beside a
	// restored one.
	replaces = map[string]schema.GroupResource{
		"DaemonSet": {Group: "apps", Resource: "daemonsets"},
		"Job":       {Group: "batch", Resource: "jobs"},
	}
)

// Action is the action; see New.
type Action struct{}

var _ restoreaction.Action = Action{}

// New returns the action.
func New() Action { return Action{} }

// Name implements restoreaction.Action.
func (Action) Name() string { return "grapnel.dev/pod" }

// AppliesTo implements restoreaction.Action.
func (Action) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "pods"}
}

// Execute implements restoreaction.Action.
func (Action) Execute(_ context.Context, item *restoreaction.Item) (restoreaction.Result, error) {
	if reason := skip(item); reason != "" {
		return restoreaction.Result{Skip: reason}, nil
	}
	object := item.Object.Object
	field.Prune(object, []string{"spec"}, "nodeName", "priority", "preemptionPolicy", "overhead", "ephemeralContainers")
	removeToken(field.Map(object, "spec"))
	return restoreaction.Result{Additional: additional(item)}, nil
}

// skip returns why a Pod is not restored, if it is not.
func skip(item *restoreaction.Item) string {
	archived := item.Archived
	owner := item.Controller()
	switch phase := field.Get[string](archived.Object, "status", "phase"); {
	case phase == "Succeeded" || phase == "Failed":
		return "the Pod had ended (" + phase + ")"
	case owner.Kind == "Node" || field.Has(archived.Object, "metadata", "annotations", "kubernetes.io/config.mirror"):
		return "the kubelet makes it from a file on its node"
	}
	if resource, ok := replaces[owner.Kind]; ok && item.Run.Archived(resource, archived.GetNamespace(), owner.Name) {
		return owner.Kind + " " + owner.Name + " makes new ones"
	}
	return ""
}

// additional returns what has to exist before the Pod, as far as it is in the
// archive.
func additional(item *restoreaction.Item) []restoreaction.Ref {
	var refs []restoreaction.Ref
	add := func(ref restoreaction.Ref) {
		if ref.Name != "" && item.Run.Archived(ref.Resource, ref.Namespace, ref.Name) {
			refs = append(refs, ref)
		}
	}
	spec := field.Map(item.Archived.Object, "spec")
	add(restoreaction.Ref{Resource: priorities, Name: field.Get[string](spec, "priorityClassName")})
	for volume := range field.Maps(spec, "volumes") {
		claim := field.Get[string](volume, "persistentVolumeClaim", "claimName")
		add(restoreaction.Ref{Resource: claims, Namespace: item.Archived.GetNamespace(), Name: claim})
	}
	return refs
}
