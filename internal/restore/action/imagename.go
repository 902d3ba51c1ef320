// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// maxImageBytes is more than any image name has, with its registry and digest.
const maxImageBytes = 512

// ImageChange replaces a part of the names of images.
type ImageChange struct{ Old, New string }

// ParseImageChanges parses the data of a ConfigMap of Velero, whose values are "<old part>,<new
// part>". It returns the changes in the order of their keys, and the problems of values that are
// ignored, as in Velero.
func ParseImageChanges(data map[string]string) (changes []ImageChange, problems []string) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		oldPart, newPart, _ := strings.Cut(data[key], ",")
		change := ImageChange{Old: strings.TrimSpace(oldPart), New: strings.TrimSpace(newPart)}
		if !isImagePart(change.Old) || !isImagePart(change.New) {
			problems = append(problems, fmt.Sprintf("key %s is ignored: its value is not two parts of image names with a comma between them; fix it", key))
			continue
		}
		changes = append(changes, change)
	}
	return changes, problems
}

// isImagePart reports whether the name of an image can contain a text.
func isImagePart(part string) bool {
	return part != "" && len(part) <= maxImageBytes && !strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r == ',' || r > '~' })
}

// ImageNameAction changes the images of pods and of the workloads that create them, like Velero's
// action of that name. The first change whose old part an image contains applies; Velero's order is
// random.
type ImageNameAction struct{ changes []ImageChange }

var _ itemaction.RestoreAction = ImageNameAction{}

// NewImageNameAction returns the action.
func NewImageNameAction(changes []ImageChange) ImageNameAction {
	return ImageNameAction{changes: changes}
}

// Name implements itemaction.RestoreAction.
func (ImageNameAction) Name() string { return "grapnel.dev/change-image-name" }

// podSpecPaths are the paths of the specs of pods, by resource.
var podSpecPaths = map[schema.GroupResource][]string{
	{Resource: "pods"}:                        {"spec"},
	{Resource: "replicationcontrollers"}:      {"spec", "template", "spec"},
	{Group: "apps", Resource: "daemonsets"}:   {"spec", "template", "spec"},
	{Group: "apps", Resource: "deployments"}:  {"spec", "template", "spec"},
	{Group: "apps", Resource: "replicasets"}:  {"spec", "template", "spec"},
	{Group: "apps", Resource: "statefulsets"}: {"spec", "template", "spec"},
	{Group: "batch", Resource: "cronjobs"}:    {"spec", "jobTemplate", "spec", "template", "spec"},
	{Group: "batch", Resource: "jobs"}:        {"spec", "template", "spec"},
}

// AppliesTo implements itemaction.RestoreAction.
func (ImageNameAction) AppliesTo(resource schema.GroupResource) bool {
	return podSpecPaths[resource] != nil
}

// Execute implements itemaction.RestoreAction.
func (a ImageNameAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	spec := GetMap(item.Object.Object, podSpecPaths[item.Resource.GroupResource()]...)
	for container := range allContainers(spec) {
		image := Get[string](container, "image")
		at := slices.IndexFunc(a.changes, func(c ImageChange) bool { return strings.Contains(image, c.Old) })
		if at < 0 {
			continue
		}
		changed := strings.ReplaceAll(image, a.changes[at].Old, a.changes[at].New)
		if len(changed) > maxImageBytes {
			return itemaction.Result{}, fmt.Errorf("replacing %q in an image makes its name longer than %d bytes; fix the ConfigMap", a.changes[at].Old, maxImageBytes)
		}
		container["image"] = changed
	}
	return itemaction.Result{}, nil
}
