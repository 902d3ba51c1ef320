// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/kube/request"
	"github.com/grapnel-dev/grapnel/internal/restore/compare"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// maxTries bounds how often an object may turn out to be in another state than
// it was seen in.
const maxTries = 5

// create creates an object that is not known to exist.
func (r *run) create(ctx context.Context, it *item, outcome Outcome) verdict {
	if it.refused != nil {
		if v, exists := r.meetIfExists(ctx, it); exists {
			return v
		}
		return failed(it.refused)
	}
	if r.req.DryRun {
		return verdict{outcome: outcome, warnings: it.warnings}
	}
	r.stamp(it.object, outcome)
	body, err := json.Marshal(it.object.Object)
	if err != nil {
		return failed(fmt.Errorf("encoding the object: %w", err))
	}
	err = r.post(ctx, it, body)
	if status := it.archived.Object["status"]; !it.converted && requiresStatus(err) && status != nil && it.object.Object["status"] == nil {
		it.object.Object["status"] = status
		it.warnings = append(it.warnings, "its definition requires a status: it was restored with the one it had")
		return r.create(ctx, it, outcome)
	}
	switch {
	case err == nil:
		return verdict{outcome: outcome, warnings: it.warnings, err: r.restoreStatus(ctx, it)}
	case mayExist(err):
		if v, exists := r.meetIfExists(ctx, it); exists {
			return v
		}
	}
	return failed(err)
}

// post sends the object, again where its kind or namespace is so new that not
// every part of the control plane knows it.
func (r *run) post(ctx context.Context, it *item, body []byte) error {
	for n := 1; ; n++ {
		err := r.cluster.Create(ctx, it.target, body)
		r.noteAnswer(err)
		if err == nil || n == request.MaxAttempts || !r.tooNew(ctx, it, err) {
			return err
		}
		if r.engine.opts.Sleep(ctx, request.Delay(n)) != nil {
			return err
		}
	}
}

// tooNew reports whether the API server refuses an object because of something
// that this run made a moment ago.
func (r *run) tooNew(ctx context.Context, it *item, err error) bool {
	switch {
	case apierrors.IsNotFound(err):
		return it.kind.fresh || it.converted && r.definitions.has(it.resource)
	case apierrors.IsForbidden(err):
		// Pods need the ServiceAccount that a controller makes.
		return it.target.Namespace != "" && r.namespace(ctx, it.target.Namespace).fresh &&
			strings.Contains(err.Error(), "error looking up service account")
	}
	return false
}

// requiresStatus reports whether the API server refuses an object for its lack of
// a status. Only custom resources without a subresource for it can be so.
func requiresStatus(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "status" && cause.Type == metav1.CauseTypeFieldValueRequired
	})
}

// mayExist reports whether an object that could not be created may be there.
// What exists already is not always refused as such: a quota, a webhook, or its
// own address or node port may come first.
func mayExist(err error) bool {
	return apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) ||
		apierrors.IsForbidden(err) || apierrors.IsInternalError(err)
}

// meetIfExists looks for the object in the cluster.
func (r *run) meetIfExists(ctx context.Context, it *item) (v verdict, exists bool) {
	found, err := r.get(ctx, it)
	switch {
	case apierrors.IsNotFound(err):
		return verdict{}, false
	case err != nil:
		return failed(err), true
	}
	return r.meet(ctx, it, found), true
}

func (r *run) get(ctx context.Context, it *item) (list.Item, error) {
	kind := list.Kind{Resource: it.target.Resource, Kind: it.object.GetKind()}
	found, err := r.cluster.Get(ctx, kind, it.target.Namespace, it.target.Name)
	r.noteAnswer(err)
	return found, err
}

// stamp notes on an object what this restore does to it.
func (r *run) stamp(object *unstructured.Unstructured, outcome Outcome) {
	if r.req.RestoreUID == "" {
		return
	}
	annotations := field.Map(object.Object, "metadata", "annotations")
	if annotations == nil {
		annotations = map[string]any{}
		field.Map(object.Object, "metadata")["annotations"] = annotations
	}
	annotations[compare.Restored] = r.stampOf(outcome)
}

// stampOf returns the value of the annotation compare.Restored.
func (r *run) stampOf(outcome Outcome) string { return string(outcome) + " " + r.req.RestoreUID }

// stamped returns what this restore did to an existing object before it was
// interrupted.
func (r *run) stamped(object map[string]any) (Outcome, bool) {
	return r.stampedAs(field.Get[string](object, "metadata", "annotations", compare.Restored))
}

// stampedAs reads the value of the annotation compare.Restored.
func (r *run) stampedAs(value string) (Outcome, bool) {
	outcome, uid, _ := strings.Cut(value, " ")
	return Outcome(outcome), r.req.RestoreUID != "" && uid == r.req.RestoreUID
}

// restoreStatus writes the archived status of an object that was written, if
// that is wanted.
func (r *run) restoreStatus(ctx context.Context, it *item) error {
	status := field.Map(it.archived.Object, "status")
	if len(status) == 0 || it.converted || !wantsStatus(it) || r.req.DryRun {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	err = r.cluster.Patch(ctx, it.target, "status", patch)
	if apierrors.IsNotFound(err) {
		err = r.cluster.Patch(ctx, it.target, "", patch) // the kind has no status subresource
	}
	if err != nil {
		return fmt.Errorf("it was restored, but its status was not: %w", err)
	}
	return nil
}

func wantsStatus(it *item) bool {
	for _, key := range []string{"grapnel.dev/restore-status", "velero.io/restore-status"} {
		switch field.Get[string](it.archived.Object, "metadata", "annotations", key) {
		case "true":
			return true
		case "false":
			return false
		}
	}
	return it.kind.withStatus
}

// errStillThere says that a deleted object did not go in time.
var errStillThere = errors.New("it is being deleted and still there")

// awaitGone waits until an object with a UID is gone.
func (r *run) awaitGone(ctx context.Context, it *item, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, r.engine.opts.Wait)
	defer cancel()
	var finalizers []string
	err := r.cluster.Wait(ctx, it.target, func(object []byte) (bool, error) {
		if object == nil {
			return true, nil
		}
		var now unstructured.Unstructured
		if err := json.Unmarshal(object, &now.Object); err != nil {
			return false, fmt.Errorf("decoding %s: %w", it.about(), err)
		}
		finalizers = now.GetFinalizers()
		return string(now.GetUID()) != uid, nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	holders := ""
	if len(finalizers) > 0 {
		holders = ", held by its finalizers " + strings.Join(finalizers, ", ")
	}
	return fmt.Errorf("%w after %s%s", errStillThere, r.engine.opts.Wait, holders)
}
