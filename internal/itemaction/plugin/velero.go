// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// Annotations in which Velero's item actions tell their server what its messages have
// no field for.
const (
	// annotationSkipFromBackup, whatever its value, leaves the object out.
	annotationSkipFromBackup = "velero.io/skip-from-backup"
	// annotationMustInclude with the value "true" archives the additional items even if the
	// selection excludes them.
	annotationMustInclude = "backup.velero.io/must-include-additional-items"
	// annotationSkippedNoCSIPV says that a volume is none of CSI, which means nothing here.
	annotationSkippedNoCSIPV = "backup.velero.io/skipped-no-csi-pv"
)

// handledAnnotations are the annotations that are taken from what an action returns.
var handledAnnotations = []string{item.AnnotationBackupLabels, annotationSkipFromBackup, annotationMustInclude, annotationSkippedNoCSIPV}

// applyVeleroAnnotations does what the annotations of Velero say.
func applyVeleroAnnotations(said map[string]string, result *itemaction.Result) {
	if _, skip := said[annotationSkipFromBackup]; skip {
		result.Skip = "the action leaves it out"
	}
	if said[annotationMustInclude] == "true" {
		for i := range result.RelatedItems {
			result.RelatedItems[i].IgnoreSelection = true
		}
	}
}
