// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
)

// recreateObject replaces an existing object. It deletes nothing before the API server has
// confirmed that it would accept the replacement, and recreates the old object if the
// replacement is rejected nevertheless. If a quota does not allow both, it patches the old
// object.
func (r *enginePass) recreateObject(ctx context.Context, it *item, existing *unstructured.Unstructured, patch map[string]any) itemResult {
	if it.createErr != nil {
		return failedResult(it.createErr)
	}
	if r.req.DryRun {
		return itemResult{outcome: Recreated, warnings: it.creationWarnings}
	}
	switch err := r.checkCreateAccepted(ctx, it, existing); {
	case isQuotaExceeded(err):
		return r.updateInstead(ctx, it, existing, patch, err)
	case err != nil:
		return failedResult(err)
	}
	if ctx.Err() != nil {
		return failedResult(context.Cause(ctx))
	}
	// Until the replacement exists, the object is missing: an ending run completes this.
	ctx, cancel := contextWithGrace(ctx, r.engine.opts.GracePeriod)
	defer cancel()
	uid := string(existing.GetUID())
	err := r.cluster.Delete(ctx, it.target, uid)
	r.trackUnanswered(err)
	switch {
	case apierrors.IsConflict(err):
		return r.handleWriteResult(ctx, it, err) // it was replaced meanwhile
	case err != nil && hasNoResponse(err):
		it.deleted = true
		return failedResult(fmt.Errorf("the API server did not say whether it deleted the object, so it may be missing: %w", err))
	case err != nil && !apierrors.IsNotFound(err):
		return failedResult(err)
	}
	it.deleted = true
	if err := r.waitUntilDeleted(ctx, it, uid); err != nil {
		err = fmt.Errorf("it was deleted to be recreated from the backup, and is not recreated yet: %w", err)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w; restore again after it is deleted", err)
		}
		return failedResult(err)
	}
	v := r.createObject(ctx, it, Recreated)
	if v.outcome == Failed {
		v.err = r.recreateOriginal(ctx, it, existing, v.err)
	}
	return v
}

// checkCreateAccepted returns an error unless the API server would create the object if its
// name were free. The API server reports a taken name only after validation and admission,
// so a dry run of the same request checks exactly that: webhooks see the right name, and no
// artificial name is needed.
func (r *enginePass) checkCreateAccepted(ctx context.Context, it *item, existing *unstructured.Unstructured) error {
	if it.createAccepted {
		return nil
	}
	body, err := stdjson.Marshal(withoutUniqueFields(it, existing).Object)
	if err != nil {
		return fmt.Errorf("encoding the object: %w", err)
	}
	err = r.cluster.CreateDryRun(ctx, it.target, body)
	r.trackUnanswered(err)
	switch {
	case r.addRequiredStatus(it, err):
		return r.checkCreateAccepted(ctx, it, existing)
	case err == nil || isNameTaken(it.target, err):
		it.createAccepted = true
		return nil
	}
	return fmt.Errorf("it was not deleted or changed, because the API server would reject its replacement: %w", err)
}

// isQuotaExceeded reports whether a quota does not allow an object. A dry run counts the
// object in addition to the one that it replaces.
func isQuotaExceeded(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// updateInstead updates an object that cannot be recreated because of a quota. For an
// update, the quota counts only the increase. Deleting the object first would not work: its
// share is free only after a controller has counted again, and until then any other object
// may take it.
func (r *enginePass) updateInstead(
	ctx context.Context, it *item, existing *unstructured.Unstructured, patch map[string]any, refused error,
) itemResult {
	v := r.patchExisting(ctx, it, existing, patch)
	if v.outcome == Failed {
		v.err = fmt.Errorf("%w; and it cannot be updated in place either: %w", refused, v.err)
	}
	if v.outcome == Updated {
		v.warnings = append(v.warnings, "it was updated in place instead of recreated: exceeded quota of its namespace")
	}
	return v
}

// isNameTaken reports whether the API server rejected an object only because its name
// exists. A webhook may use the same reason, but not the same details.
func isNameTaken(target rawclient.Target, err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsAlreadyExists(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	details := status.Status().Details
	return details.Name == target.Name && details.Kind == target.Resource.Resource
}

// withoutUniqueFields returns the object to create without fields that only one object can
// have at a time and the existing one still has: the API server would reject it.
func withoutUniqueFields(it *item, existing *unstructured.Unstructured) *unstructured.Unstructured {
	switch it.resource {
	case schema.GroupResource{Resource: "services"}:
		probe := it.object.DeepCopy()
		action.RemoveKeys(probe.Object, []string{"spec"}, "healthCheckNodePort")
		for port := range action.EachMap(probe.Object, "spec", "ports") {
			delete(port, "nodePort")
		}
		return probe
	case schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:
		if action.Get[bool](existing.Object, "globalDefault") {
			probe := it.object.DeepCopy()
			delete(probe.Object, "globalDefault")
			return probe
		}
	}
	return it.object
}

// serverSetMetadata are the fields of metadata that an API server sets.
var serverSetMetadata = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds",
}

// recreateOriginal recreates a deleted object in its old form, because its replacement was
// rejected. It returns the reason, with the outcome for the object.
func (r *enginePass) recreateOriginal(ctx context.Context, it *item, existing *unstructured.Unstructured, reason error) error {
	reason = fmt.Errorf("it was deleted, and then the API server rejected its replacement: %w", reason)
	old := existing.DeepCopy()
	action.RemoveKeys(old.Object, []string{"metadata"}, serverSetMetadata...)
	// Some kinds are rejected with values that their controllers have set.
	clean := &unstructured.Unstructured{Object: r.normalizeExisting(ctx, it, existing)}
	if owners := existing.GetOwnerReferences(); len(owners) > 0 {
		clean = clean.DeepCopy()
		clean.SetOwnerReferences(owners)
	}
	action.RemoveKeys(clean.Object, []string{"metadata"}, serverSetMetadata...)
	var first error
	for _, object := range []*unstructured.Unstructured{old, clean} {
		body, err := stdjson.Marshal(object.Object)
		if err == nil {
			err = r.cluster.Create(ctx, it.target, body)
		}
		if err == nil {
			return fmt.Errorf("%w; the original object was recreated, without its status", reason)
		}
		if isNameTaken(it.target, err) {
			return fmt.Errorf("%w; another client has recreated it in the meantime", reason)
		}
		first = cmp.Or(first, err)
	}
	return fmt.Errorf("%w; the original object could not be recreated, and is missing: %w; create it by hand from the backup", reason, first)
}

// addMissingObjectHint adds to an error of a create request what an earlier, crashed
// attempt may have done to the object.
func (r *enginePass) addMissingObjectHint(it *item, err error) error {
	if r.req.Policy != ExistingRecreate || !r.req.Resumed || updateOnlyResources[it.resource] || it.deleted {
		return err
	}
	return fmt.Errorf("%w; the object does not exist, and an earlier attempt of this restore may have deleted it: "+
		"if it is missing, create it by hand from the backup", err)
}

// contextWithGrace returns a context that ends a grace period after ctx.
func contextWithGrace(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
			cancel(context.Cause(ctx))
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}
