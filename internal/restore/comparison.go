// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/stamp"
)

// maxReportedFields is how many fields a warning names.
const maxReportedFields = 5

// errConcurrentlyModified is the error for an object that another client keeps changing.
var errConcurrentlyModified = errors.New("another client keeps changing or recreating it")

// updateOnlyResources are the resources whose objects are never deleted to be recreated:
// their contents would be deleted with them, and an active Schedule or location would
// become suspended or read-only.
var updateOnlyResources = newUpdateOnlyResources()

func newUpdateOnlyResources() map[schema.GroupResource]bool {
	all := map[schema.GroupResource]bool{
		namespaceResource:                    true,
		crdResource:                          true,
		{Resource: "persistentvolumes"}:      true,
		{Resource: "persistentvolumeclaims"}: true,
	}
	for _, resource := range action.AffectedResources() {
		all[resource] = true
	}
	return all
}

// compareItem compares and updates an existing object according to the policy.
func (r *enginePass) compareItem(ctx context.Context, it *item, found rawclient.Item) itemResult {
	if it.comparisons++; it.comparisons > maxComparisons {
		return failedResult(errConcurrentlyModified)
	}
	existing := &unstructured.Unstructured{}
	if err := json.Unmarshal(found.JSON, &existing.Object); err != nil {
		return failedResult(fmt.Errorf("decoding the existing object: %w", err))
	}
	if found.Deleting {
		return r.createAfterDeletion(ctx, it, existing)
	}
	if v, own := r.adoptStampedOutcome(ctx, it, existing); own {
		return v
	}
	switch it.resource {
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return r.mergeServiceAccount(ctx, it, existing)
	case schema.GroupResource{Resource: "persistentvolumes"}:
		if rebound, ok := action.RebindVolume(existing, it.archived, r.actionRun); ok {
			return r.replaceExisting(ctx, it, rebound)
		}
	}
	patch := MergePatch(Objects{
		Resource: it.resource, Desired: it.object.Object,
		Existing: r.normalizeExisting(ctx, it, existing), Archived: cmp.Or(it.modifiedArchived, it.archived).Object,
	})
	switch {
	case patch == nil:
		return newItemResult(Unchanged, r.labelUnchanged(ctx, it, existing))
	case r.req.Policy == ExistingRecreate && !updateOnlyResources[it.resource]:
		return r.recreateObject(ctx, it, existing, patch)
	case r.req.Policy == ExistingNone:
		return itemResult{outcome: Skipped, warnings: []string{leftUnchangedWarning(it, patch)}}
	}
	return r.patchExisting(ctx, it, existing, patch)
}

// adoptStampedOutcome reports the outcome of an object that this restore wrote before it
// was interrupted.
func (r *enginePass) adoptStampedOutcome(ctx context.Context, it *item, existing *unstructured.Unstructured) (v itemResult, own bool) {
	outcome, own, foreign := r.readStamp(it.target, existing.Object)
	if foreign && !slices.Contains(it.unconditionalWarnings, foreignStampWarning) {
		it.unconditionalWarnings = append(it.unconditionalWarnings, foreignStampWarning)
	}
	if !own {
		return itemResult{}, false
	}
	v = newItemResult(outcome, r.restoreStatus(ctx, it))
	if outcome == Created || outcome == Recreated {
		v.warnings = it.creationWarnings // the attempt that created it did not report them
	}
	return v, true
}

// leftUnchangedWarning is the warning about an object that differs and is not changed.
func leftUnchangedWarning(it *item, patch map[string]any) string {
	text := fmt.Sprintf("it exists and differs from the backup in %s; it was not changed (existingResourcePolicy none)",
		strings.Join(ChangedFields(patch, maxReportedFields), ", "))
	if len(it.skippedPluginActions) > 0 {
		text += fmt.Sprintf("; restore action %s, which is not called for unchanged objects, may be the reason",
			strings.Join(it.skippedPluginActions, ", "))
	}
	return text
}

// normalizeExisting returns an existing object without what the actions remove from
// archived ones.
func (r *enginePass) normalizeExisting(ctx context.Context, it *item, existing *unstructured.Unstructured) map[string]any {
	normal := r.normalizersOf(it)
	if len(normal) == 0 {
		return existing.Object
	}
	object, err := action.CopyForRestore(existing, r.labels)
	if err != nil {
		return existing.Object
	}
	here := *r.actionRun
	here.NamespaceMapping = nil // it is already in its target namespace
	shown := &itemaction.RestoreItem{Resource: it.target.Resource, Object: object, Archived: existing, Restore: &here}
	for _, action := range normal {
		result, err := action.Execute(ctx, shown)
		if err != nil || result.Skip != "" {
			break // the changes so far are all that they would make
		}
	}
	return shown.Object.Object
}

// normalizersOf returns the built-in actions for an item.
func (r *enginePass) normalizersOf(it *item) []itemaction.RestoreAction {
	if it.converted {
		return actionsForResource(r.normalizers, it.resource)
	}
	return it.kind.normalizers
}

// patchExisting patches an existing object.
func (r *enginePass) patchExisting(ctx context.Context, it *item, existing *unstructured.Unstructured, patch map[string]any) itemResult {
	if r.req.DryRun {
		return newItemResult(Updated, nil)
	}
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	// Change only the compared version.
	metadata["resourceVersion"] = existing.GetResourceVersion()
	setMetadataEntry(metadata, "labels", action.LabelBackupName, names.LabelValue(r.req.BackupName))
	setMetadataEntry(metadata, "labels", action.LabelRestoreName, names.LabelValue(r.req.RestoreName))
	if stamps := r.newStamper(); stamps.IsEnabled() {
		setMetadataEntry(metadata, "annotations", stamp.Annotation, stamps.Value(it.target, string(Updated)))
	}
	body, err := stdjson.Marshal(patch)
	if err != nil {
		return failedResult(fmt.Errorf("encoding the patch: %w", err))
	}
	err = r.cluster.Patch(ctx, it.target, "", body)
	return r.handleWriteResult(ctx, it, err)
}

// setMetadataEntry sets a label or an annotation in a patch.
func setMetadataEntry(metadata map[string]any, key, name, value string) {
	entries, _ := metadata[key].(map[string]any)
	if entries == nil {
		entries = map[string]any{}
		metadata[key] = entries
	}
	entries[name] = value
}

// handleWriteResult determines the result after a change of an object.
func (r *enginePass) handleWriteResult(ctx context.Context, it *item, err error) itemResult {
	r.trackUnanswered(err)
	switch {
	case err == nil:
		return newItemResult(Updated, r.restoreStatus(ctx, it))
	case apierrors.IsConflict(err):
		// It changed since it was read, or this is our own change, whose reply was lost.
		if v, exists := r.compareIfExists(ctx, it); exists {
			return v
		}
		return r.createObject(ctx, it, Created)
	}
	return failedResult(err)
}

// mergeServiceAccount adds the missing parts to a ServiceAccount.
func (r *enginePass) mergeServiceAccount(ctx context.Context, it *item, existing *unstructured.Unstructured) itemResult {
	wanted := it.object.DeepCopy()
	action.RemoveKeys(wanted.Object, []string{"metadata", "labels"}, action.LabelBackupName, action.LabelRestoreName)
	action.RemoveKeys(wanted.Object, []string{"metadata", "annotations"}, stamp.Annotation)
	merged, changed := action.MergeAccount(existing, wanted)
	if !changed {
		return newItemResult(Unchanged, r.labelUnchanged(ctx, it, existing))
	}
	return r.replaceExisting(ctx, it, merged)
}

// labelUnchanged updates the labels of an object that is as it should be, with the policy update: as
// in Velero, the labels show which objects a restore verified.
func (r *enginePass) labelUnchanged(ctx context.Context, it *item, existing *unstructured.Unstructured) error {
	wanted := map[string]string{action.LabelBackupName: names.LabelValue(r.req.BackupName), action.LabelRestoreName: names.LabelValue(r.req.RestoreName)}
	labels := existing.GetLabels()
	if r.req.Policy != ExistingUpdate || r.req.DryRun || labels[action.LabelBackupName] == wanted[action.LabelBackupName] && labels[action.LabelRestoreName] == wanted[action.LabelRestoreName] {
		return nil
	}
	body, err := stdjson.Marshal(map[string]any{"metadata": map[string]any{"labels": wanted}})
	if err != nil {
		return fmt.Errorf("encoding the labels: %w", err)
	}
	err = r.cluster.Patch(ctx, it.target, "", body)
	r.trackUnanswered(err)
	if err != nil {
		return fmt.Errorf("it is as it was archived, but labeling it failed: %w", err)
	}
	return nil
}

// replaceExisting replaces an existing object with one that has its resourceVersion.
func (r *enginePass) replaceExisting(ctx context.Context, it *item, object *unstructured.Unstructured) itemResult {
	if r.req.DryRun {
		return newItemResult(Updated, nil)
	}
	metadata := action.GetMap(object.Object, "metadata")
	setMetadataEntry(metadata, "labels", action.LabelBackupName, names.LabelValue(r.req.BackupName))
	setMetadataEntry(metadata, "labels", action.LabelRestoreName, names.LabelValue(r.req.RestoreName))
	r.stampObject(it.target, object, Updated)
	body, err := stdjson.Marshal(object.Object)
	if err != nil {
		return failedResult(fmt.Errorf("encoding the object: %w", err))
	}
	err = r.cluster.Replace(ctx, it.target, body)
	return r.handleWriteResult(ctx, it, err)
}

// createAfterDeletion waits until an object that another client deleted is gone, and then
// creates it.
func (r *enginePass) createAfterDeletion(ctx context.Context, it *item, existing *unstructured.Unstructured) itemResult {
	if !r.req.DryRun {
		if err := r.waitUntilDeleted(ctx, it, string(existing.GetUID())); err != nil {
			return failedResult(err)
		}
	}
	return r.createObject(ctx, it, Created)
}
