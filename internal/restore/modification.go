// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// modifierName is the name of the request's modifiers among the names of actions.
const modifierName = "grapnel.dev/resource-modifier"

var storageClassKind = rawclient.ResourceKind{
	Resource: schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}, Kind: "StorageClass",
}

// hasStorageClass reports whether the cluster has a storage class, or whether a dry run would
// restore it. Classes are restored before claims, so a missing one is looked up again.
func (r *enginePass) hasStorageClass(ctx context.Context, name string) (bool, error) {
	if _, known := r.storageClasses.Load(name); known {
		return true, nil
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return false, nil
	}
	if r.req.DryRun && r.isArchived(storageClassKind.Resource.GroupResource(), "", name) {
		return true, nil
	}
	_, err := r.cluster.Get(ctx, storageClassKind, "", name)
	r.trackUnanswered(err)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err == nil {
		r.storageClasses.Store(name, nil)
	}
	return err == nil, err
}

// modifyItem changes an object by the modifiers of the request. An object that cannot be changed
// is not restored unchanged: what a rule removes may be what must not run in this cluster.
func (r *enginePass) modifyItem(ctx context.Context, it *item) error {
	if r.req.Modifiers == nil {
		return nil
	}
	matched := r.req.Modifiers.Match(it.resource, it.archived.GetNamespace(), it.object)
	if len(matched) == 0 {
		return nil
	}
	it.kind.modified.Store(true)
	for _, i := range matched {
		r.modifierMatches[i].Add(1)
	}
	fail := func(err error) error { return fmt.Errorf("resource modifier: %w; fix the rule and restore again", err) }
	if err := r.req.Modifiers.Apply(it.object, matched); err != nil {
		return fail(err)
	}
	if err := r.sanitizeReturnedObject(it); err != nil {
		return fail(fmt.Errorf("the object's %w", err))
	}
	if err := r.checkModifiedItem(ctx, it); err != nil {
		return fail(err)
	}
	// The comparison with an existing object takes a field that only the archived one has for one
	// that the cluster sets. A rule that removes a field wants it removed there, too.
	archived := &unstructured.Unstructured{Object: it.archived.Object}
	if r.req.Modifiers.Apply(archived, matched) == nil {
		it.modifiedArchived = archived
	}
	return nil
}

// checkModifiedItem applies the checks of the built-in actions to a modified object, as if it had
// been archived in this form: a rule must not restore what an archive cannot.
func (r *enginePass) checkModifiedItem(ctx context.Context, it *item) error {
	archived := it.object.DeepCopy()
	if namespace := it.archived.GetNamespace(); namespace != "" {
		archived.SetNamespace(namespace)
	}
	if status := it.archived.Object["status"]; status != nil && !it.converted {
		archived.Object["status"] = status
	}
	shown := &itemaction.RestoreItem{Resource: it.target.Resource, Object: it.object.DeepCopy(), Archived: archived, Restore: r.actionRun}
	for _, check := range r.normalizersOf(it) {
		// Errors are about data of volumes, and were reported before.
		if result, err := check.Execute(ctx, shown); err == nil && result.Skip != "" {
			return fmt.Errorf("an object in the modified form is never restored: %s", result.Skip)
		}
	}
	if standby := action.NewStandbyAction(); standby.AppliesTo(it.resource) {
		shown.Object = it.object
		result, err := standby.Execute(ctx, shown)
		if !slices.Equal(result.Warnings, it.creationWarnings) {
			it.creationWarnings = append(it.creationWarnings, result.Warnings...)
		}
		return err
	}
	return nil
}

// warnAboutUnmatchedModifiers warns about rules that matched nothing, which may be misspelled. A
// resumed run does not show all objects to plugins again, and rules match what those return.
func (r *enginePass) warnAboutUnmatchedModifiers() {
	if r.req.Resumed {
		return
	}
	for i := range r.modifierMatches {
		if r.modifierMatches[i].Load() == 0 {
			r.recordRunWarning(results.ReasonNoMatch, fmt.Sprintf("resource modifier: no object meets the conditions of rule %d", i+1))
		}
	}
}
