// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupimport

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// LabelSchedule is on imported Backups that a Schedule of Grapnel in another cluster created.
// Its value is the name of that Schedule. Backups of Velero keep Velero's label.
const LabelSchedule = "grapnel.dev/imported-schedule-name"

const (
	grapnelDomain = "grapnel.dev"
	// resourceTimeoutAnnotation is an annotation that Velero's server sets for its plugins.
	resourceTimeoutAnnotation = "velero.io/resource-timeout"

	// The limits of metadata that is kept from a manifest.
	maxLabels          = 64
	maxAnnotationBytes = 64 << 10
)

// allowedLabels returns the labels of a stored backup that are valid and meaningful here: the first
// maxLabels in the order of their keys.
func allowedLabels(stored map[string]string) map[string]string {
	kept := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		value := stored[key]
		if key == v1alpha1.LabelScheduleName {
			key = LabelSchedule
		} else if !IsAllowedKey(key) {
			continue
		}
		if len(kept) < maxLabels && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
			kept[key] = value
		}
	}
	return nilIfEmpty(kept)
}

// allowedAnnotations is allowedLabels for annotations, whose total size is limited to
// maxAnnotationBytes.
func allowedAnnotations(stored map[string]string) map[string]string {
	kept, left := map[string]string{}, maxAnnotationBytes
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		size := len(key) + len(stored[key])
		if size > left || !IsAllowedKey(key) || len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
			continue
		}
		kept[key] = stored[key]
		left -= size
	}
	return nilIfEmpty(kept)
}

// IsAllowedKey reports whether a label or annotation of a stored backup, or of an object of Velero, is meaningful on an
// object of Grapnel in this cluster, too.
func IsAllowedKey(key string) bool {
	of, _, _ := strings.Cut(key, "/")
	switch {
	case key == velero.StorageLocationLabel, key == resourceTimeoutAnnotation:
		return false
	case of == grapnelDomain, strings.HasSuffix(of, "."+grapnelDomain):
		return false
	}
	return !names.IsTrackingKey(key)
}

func nilIfEmpty(kept map[string]string) map[string]string {
	if len(kept) == 0 {
		return nil
	}
	return kept
}
