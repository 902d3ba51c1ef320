// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
	"github.com/grapnel-dev/grapnel/internal/restore/compare"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/pv"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/serviceaccount"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/clean"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// shownFields is how many fields a warning names.
const shownFields = 5

// errRestless is the end for an object that somebody else keeps changing.
var errRestless = errors.New("something else keeps changing it, or creates it again")

// kept are the resources whose objects are never deleted to be created again:
// what they hold would go with them.
var kept = map[schema.GroupResource]bool{
	namespacesResource:                   true,
	definitionsResource:                  true,
	{Resource: "persistentvolumes"}:      true,
	{Resource: "persistentvolumeclaims"}: true,
}

// meet decides about an object that exists.
func (r *run) meet(ctx context.Context, it *item, found list.Item) verdict {
	if it.tries++; it.tries > maxTries {
		return failed(errRestless)
	}
	existing := &unstructured.Unstructured{}
	if err := json.Unmarshal(found.JSON, &existing.Object); err != nil {
		return failed(fmt.Errorf("decoding the existing object: %w", err))
	}
	if found.Deleting {
		return r.replaceDeleted(ctx, it, existing)
	}
	if outcome, own := r.stamped(existing.Object); own {
		v := did(outcome, r.restoreStatus(ctx, it))
		if outcome == Created || outcome == Recreated {
			v.warnings = it.warnings // who created it did not live to tell them
		}
		return v
	}
	switch it.resource {
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return r.merge(ctx, it, existing)
	case schema.GroupResource{Resource: "persistentvolumes"}:
		if rebound, ok := pv.Rebind(existing, it.archived, r.actionRun); ok {
			return r.put(ctx, it, rebound)
		}
	}
	patch := compare.Patch(compare.Objects{
		Resource: it.resource, Desired: it.object.Object,
		Existing: r.normalised(ctx, it, existing), Archived: it.archived.Object,
	})
	switch {
	case patch == nil:
		return did(Unchanged, nil)
	case r.req.Policy == ExistingRecreate && !kept[it.resource]:
		return r.recreate(ctx, it, existing)
	case r.req.Policy == ExistingNone:
		return verdict{outcome: Skipped, warnings: []string{leftAlone(it, patch)}}
	}
	return r.update(ctx, it, existing, patch)
}

// leftAlone is the warning about an object that differs and stays.
func leftAlone(it *item, patch map[string]any) string {
	text := fmt.Sprintf("it exists and differs from the backup in %s; it was left as it is (existingResourcePolicy none)",
		strings.Join(compare.Fields(patch, shownFields), ", "))
	if len(it.unasked) > 0 {
		text += fmt.Sprintf("; restore action %s, which is not asked about objects that stay, may be why it differs",
			strings.Join(it.unasked, ", "))
	}
	return text
}

// normalised returns an existing object without what the actions take from
// archived ones.
func (r *run) normalised(ctx context.Context, it *item, existing *unstructured.Unstructured) map[string]any {
	normal := it.kind.normal
	if it.converted {
		normal = concerned(r.normal, it.resource)
	}
	if len(normal) == 0 {
		return existing.Object
	}
	object, err := clean.Copy(existing, r.labels)
	if err != nil {
		return existing.Object
	}
	here := *r.actionRun
	here.NamespaceMapping = nil // it is in its place already
	shown := &restoreaction.Item{Resource: it.target.Resource, Object: object, Archived: existing, Run: &here}
	for _, action := range normal {
		result, err := action.Execute(ctx, shown)
		if err != nil || result.Skip != "" {
			break // what they did until then is all they would do
		}
	}
	return shown.Object.Object
}

// update patches an existing object.
func (r *run) update(ctx context.Context, it *item, existing *unstructured.Unstructured, patch map[string]any) verdict {
	if r.req.DryRun {
		return did(Updated, nil)
	}
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	// Only what was compared is changed.
	metadata["resourceVersion"] = existing.GetResourceVersion()
	set(metadata, "labels", clean.LabelBackupName, shortname.Label(r.req.BackupName))
	set(metadata, "labels", clean.LabelRestoreName, shortname.Label(r.req.RestoreName))
	if r.req.RestoreUID != "" {
		set(metadata, "annotations", compare.Restored, r.stampOf(Updated))
	}
	body, err := stdjson.Marshal(patch)
	if err != nil {
		return failed(fmt.Errorf("encoding the patch: %w", err))
	}
	err = r.cluster.Patch(ctx, it.target, "", body)
	return r.written(ctx, it, err)
}

// set sets a label or an annotation in a patch.
func set(metadata map[string]any, key, name, value string) {
	entries, _ := metadata[key].(map[string]any)
	if entries == nil {
		entries = map[string]any{}
		metadata[key] = entries
	}
	entries[name] = value
}

// written decides about an object after it was changed.
func (r *run) written(ctx context.Context, it *item, err error) verdict {
	r.noteAnswer(err)
	switch {
	case err == nil:
		return did(Updated, r.restoreStatus(ctx, it))
	case apierrors.IsConflict(err):
		// It changed since it was read, or this is our own change, whose answer
		// was lost.
		if v, exists := r.meetIfExists(ctx, it); exists {
			return v
		}
		return r.create(ctx, it, Created)
	}
	return failed(err)
}

// merge adds to a ServiceAccount what it lacks.
func (r *run) merge(ctx context.Context, it *item, existing *unstructured.Unstructured) verdict {
	wanted := it.object.DeepCopy()
	field.Prune(wanted.Object, []string{"metadata", "labels"}, clean.LabelBackupName, clean.LabelRestoreName)
	field.Prune(wanted.Object, []string{"metadata", "annotations"}, compare.Restored)
	merged, changed := serviceaccount.Merge(existing, wanted)
	if !changed {
		return did(Unchanged, nil)
	}
	return r.put(ctx, it, merged)
}

// put replaces an existing object by one with its resourceVersion.
func (r *run) put(ctx context.Context, it *item, object *unstructured.Unstructured) verdict {
	if r.req.DryRun {
		return did(Updated, nil)
	}
	metadata := field.Map(object.Object, "metadata")
	set(metadata, "labels", clean.LabelBackupName, shortname.Label(r.req.BackupName))
	set(metadata, "labels", clean.LabelRestoreName, shortname.Label(r.req.RestoreName))
	r.stamp(object, Updated)
	body, err := stdjson.Marshal(object.Object)
	if err != nil {
		return failed(fmt.Errorf("encoding the object: %w", err))
	}
	err = r.cluster.Replace(ctx, it.target, body)
	return r.written(ctx, it, err)
}

// recreate replaces an existing object.
func (r *run) recreate(ctx context.Context, it *item, existing *unstructured.Unstructured) verdict {
	if it.refused != nil {
		return failed(it.refused)
	}
	if r.req.DryRun {
		return verdict{outcome: Recreated, warnings: it.warnings}
	}
	uid := string(existing.GetUID())
	err := r.cluster.Delete(ctx, it.target, uid)
	r.noteAnswer(err)
	switch {
	case apierrors.IsConflict(err):
		return r.written(ctx, it, err) // it is another one by now
	case err != nil && !apierrors.IsNotFound(err):
		return failed(err)
	}
	if err := r.awaitGone(ctx, it, uid); err != nil {
		return failed(err)
	}
	return r.create(ctx, it, Recreated)
}

// replaceDeleted waits for the end of an object that somebody deleted.
func (r *run) replaceDeleted(ctx context.Context, it *item, existing *unstructured.Unstructured) verdict {
	if !r.req.DryRun {
		if err := r.awaitGone(ctx, it, string(existing.GetUID())); err != nil {
			return failed(err)
		}
	}
	return r.create(ctx, it, Created)
}
