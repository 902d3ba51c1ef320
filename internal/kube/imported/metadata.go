// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package imported

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/gitops"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// LabelSchedule is on imported Backups that a Schedule of Grapnel in another cluster made;
// its value is the name of that Schedule. Those of Velero keep Velero's label.
const LabelSchedule = "grapnel.dev/imported-schedule-name"

const (
	domain = "grapnel.dev"
	// resourceTimeout is an annotation that Velero's server sets for its plugins.
	resourceTimeout = "velero.io/resource-timeout"

	// What is kept at most of metadata that a bucket holds.
	maxLabels          = 64
	maxAnnotationBytes = 64 << 10
)

// labels returns those of a stored backup that are true and allowed here, in the order of
// their keys the first maxLabels.
func labels(stored map[string]string) map[string]string {
	kept := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		value := stored[key]
		if key == v1alpha1.LabelScheduleName {
			key = LabelSchedule
		} else if !tells(key) {
			continue
		}
		if len(kept) < maxLabels && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
			kept[key] = value
		}
	}
	return orNil(kept)
}

// annotations is labels for annotations, of which so many are kept that all together have
// maxAnnotationBytes.
func annotations(stored map[string]string) map[string]string {
	kept, left := map[string]string{}, maxAnnotationBytes
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		size := len(key) + len(stored[key])
		if size > left || !tells(key) || len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
			continue
		}
		kept[key] = stored[key]
		left -= size
	}
	return orNil(kept)
}

// tells says whether a key tells something that holds here, too.
func tells(key string) bool {
	of, _, _ := strings.Cut(key, "/")
	switch {
	case key == velero.StorageLocationLabel, key == resourceTimeout:
		return false
	case of == domain, strings.HasSuffix(of, "."+domain):
		return false
	}
	return !gitops.Tracks(key)
}

func orNil(kept map[string]string) map[string]string {
	if len(kept) == 0 {
		return nil
	}
	return kept
}
