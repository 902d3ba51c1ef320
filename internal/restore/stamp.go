// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/stamp"
)

// newStamper returns the stamper of the run.
func (r *enginePass) newStamper() stamp.Stamper {
	return stamp.Stamper{UID: r.req.RestoreUID, Key: r.req.StampKey}
}

// foreignStampWarning is the warning about an annotation that names this restore without proof.
const foreignStampWarning = "its annotation " + stamp.Annotation + " names this restore, which did not set it; " +
	"the object is treated like any other existing object: find out who set the annotation, and remove it"

// stampObject records on an object what this restore does to it.
func (r *enginePass) stampObject(target rawclient.Target, object *unstructured.Unstructured, outcome Outcome) {
	if !r.newStamper().IsEnabled() {
		return
	}
	annotations := action.GetMap(object.Object, "metadata", "annotations")
	if annotations == nil {
		annotations = map[string]any{}
		action.GetMap(object.Object, "metadata")["annotations"] = annotations
	}
	annotations[stamp.Annotation] = r.newStamper().Value(target, string(outcome))
}

// readStamp returns what this restore did to an existing object before it was interrupted;
// see Stamper.Parse.
func (r *enginePass) readStamp(target rawclient.Target, object map[string]any) (outcome Outcome, own, foreign bool) {
	word, own, foreign := r.newStamper().Parse(target, action.Get[string](object, "metadata", "annotations", stamp.Annotation))
	return Outcome(word), own, foreign
}
