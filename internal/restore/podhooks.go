// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/podhook"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/results"
)

var podResource = schema.GroupResource{Resource: "pods"}

// addInitContainer returns the object to create: a pod whose annotations ask for it has one more init
// container. A pod that exists is not compared with that, because init containers cannot be changed.
func (r *enginePass) addInitContainer(it *item) *unstructured.Unstructured {
	if !r.req.RunsPodHooks || it.resource != podResource {
		return it.object
	}
	hook := podhook.RestoreInitContainer(it.object.GetAnnotations())
	if hook == nil {
		return it.object
	}
	object := it.object.DeepCopy()
	spec := action.GetMap(object.Object, "spec")
	if spec == nil {
		return it.object // the API server rejects it
	}
	spec["initContainers"] = hook.Prepend(action.Get[[]any](spec, "initContainers"))
	return object
}

// recordPodHooks records a created pod whose hooks do not run.
func (r *enginePass) recordPodHooks(it *item, v itemResult) {
	if r.req.RunsPodHooks || it.resource != podResource || v.outcome != Created && v.outcome != Recreated {
		return
	}
	if podhook.HasRestoreHook(it.object.GetAnnotations()) {
		r.disabledPods.Add(it.target.Namespace, it.target.Name)
	}
}

// warnAboutDisabledPods warns about the pods whose hooks do not run.
func (r *enginePass) warnAboutDisabledPods() {
	if warning := r.disabledPods.Warning(); warning != "" {
		r.results.Warn(results.Subject{Resource: podResource.String()}, results.ReasonVeleroHooksNotRun, warning)
	}
}
