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

	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
)

// maxComparisons bounds how often an object may be in another state than it was read in.
const maxComparisons = 5

// createObject creates an object that is not known to exist.
func (r *enginePass) createObject(ctx context.Context, it *item, outcome Outcome) itemResult {
	if it.createErr != nil {
		if v, exists := r.compareIfExists(ctx, it); exists {
			return v
		}
		return failedResult(it.createErr)
	}
	if r.req.DryRun {
		return itemResult{outcome: outcome, warnings: it.creationWarnings}
	}
	r.stampObject(it.target, it.object, outcome)
	body, err := json.Marshal(r.addInitContainer(it).Object)
	if err != nil {
		return failedResult(fmt.Errorf("encoding the object: %w", err))
	}
	err = r.createWithRetry(ctx, it, body)
	if r.addRequiredStatus(it, err) {
		return r.createObject(ctx, it, outcome)
	}
	it.createAccepted = isNameTaken(it.target, err)
	switch {
	case err == nil:
		return itemResult{outcome: outcome, warnings: it.creationWarnings, err: r.restoreStatus(ctx, it)}
	case isPossiblyExisting(err):
		if v, exists := r.compareIfExists(ctx, it); exists {
			return v
		}
	}
	return failedResult(r.addMissingObjectHint(it, err))
}

// addRequiredStatus adds the archived status to an object if the API server rejected it
// because the status is missing, and reports whether it did.
func (r *enginePass) addRequiredStatus(it *item, err error) bool {
	status := it.archived.Object["status"]
	if it.converted || !isStatusRequired(err) || status == nil || it.object.Object["status"] != nil {
		return false
	}
	it.object.Object["status"] = status
	it.creationWarnings = append(it.creationWarnings, "its definition requires a status: it was restored with the one it had")
	return true
}

// createWithRetry creates the object, and retries if its kind or namespace is so new that
// not every part of the control plane knows it.
func (r *enginePass) createWithRetry(ctx context.Context, it *item, body []byte) error {
	for n := 1; ; n++ {
		err := r.cluster.Create(ctx, it.target, body)
		r.trackUnanswered(err)
		if err == nil || n == rawclient.MaxAttempts || !r.isTooNew(ctx, it, err) {
			return err
		}
		if r.engine.opts.Sleep(ctx, rawclient.BackoffDelay(n)) != nil {
			return err
		}
	}
}

// isTooNew reports whether the API server rejects an object because of something that this
// run has just created.
func (r *enginePass) isTooNew(ctx context.Context, it *item, err error) bool {
	switch {
	case apierrors.IsNotFound(err):
		return it.kind.crdCreated || it.converted && r.writtenCRDs.definesResource(it.resource)
	case apierrors.IsForbidden(err):
		// Pods need the ServiceAccount that a controller creates.
		return it.target.Namespace != "" && r.ensureNamespace(ctx, it.target.Namespace).created &&
			strings.Contains(err.Error(), "error looking up service account")
	}
	return false
}

// isStatusRequired reports whether the API server rejects an object because it has no
// status. This is only possible for custom resources without a status subresource.
func isStatusRequired(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "status" && cause.Type == metav1.CauseTypeFieldValueRequired
	})
}

// isPossiblyExisting reports whether an object that could not be created may exist. An
// existing object is not always rejected as such: a quota, a webhook, or its own address or
// node port may be checked first.
func isPossiblyExisting(err error) bool {
	return apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) ||
		apierrors.IsForbidden(err) || apierrors.IsInternalError(err)
}

// compareIfExists looks up the object in the cluster.
func (r *enginePass) compareIfExists(ctx context.Context, it *item) (v itemResult, exists bool) {
	found, err := r.getExisting(ctx, it)
	switch {
	case apierrors.IsNotFound(err):
		return itemResult{}, false
	case err != nil:
		return failedResult(err), true
	}
	return r.compareItem(ctx, it, found), true
}

func (r *enginePass) getExisting(ctx context.Context, it *item) (rawclient.Item, error) {
	kind := rawclient.ResourceKind{Resource: it.target.Resource, Kind: it.object.GetKind()}
	found, err := r.cluster.Get(ctx, kind, it.target.Namespace, it.target.Name)
	r.trackUnanswered(err)
	return found, err
}

// restoreStatus writes the archived status of an object that was written, if requested.
func (r *enginePass) restoreStatus(ctx context.Context, it *item) error {
	status := action.GetMap(it.archived.Object, "status")
	if len(status) == 0 || it.converted || !shouldRestoreStatus(it) || r.req.DryRun {
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

// shouldRestoreStatus reports whether the status of an object is restored. As in Velero, the
// annotation may be set by an action or a modifier, and its case does not matter.
func shouldRestoreStatus(it *item) bool {
	for _, key := range []string{"grapnel.dev/restore-status", "velero.io/restore-status"} {
		switch strings.ToLower(strings.TrimSpace(action.Get[string](it.object.Object, "metadata", "annotations", key))) {
		case "true":
			return true
		case "false":
			return false
		}
	}
	return it.kind.withStatus
}

// errStillDeleting means that a deleted object was not removed in time.
var errStillDeleting = errors.New("it is being deleted and still exists")

// waitUntilDeleted waits until an object with a UID is deleted.
func (r *enginePass) waitUntilDeleted(ctx context.Context, it *item, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, r.engine.opts.WaitTimeout)
	defer cancel()
	var finalizers []string
	err := r.cluster.Wait(ctx, it.target, func(object []byte) (bool, error) {
		if object == nil {
			return true, nil
		}
		var now unstructured.Unstructured
		if err := json.Unmarshal(object, &now.Object); err != nil {
			return false, fmt.Errorf("decoding %s: %w", it.displayName(), err)
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
	return fmt.Errorf("%w after %s%s", errStillDeleting, r.engine.opts.WaitTimeout, holders)
}
