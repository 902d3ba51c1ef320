// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// Annotations by which Velero's item actions pass data to their server for which its
// messages have no field.
const (
	// annotationSkipFromBackup, with any value, excludes the object.
	annotationSkipFromBackup = "velero.io/skip-from-backup"
	// backupMustInclude with the value "true" archives the additional items even if the
	// selection excludes them.
	backupMustInclude = "backup.velero.io/must-include-additional-items"
	// annotationSkippedNoCSIPV marks a volume as not from CSI, which has no meaning here.
	annotationSkippedNoCSIPV = "backup.velero.io/skipped-no-csi-pv"
)

// handledAnnotations are the annotations that are removed from a returned object.
var handledAnnotations = []string{item.AnnotationBackupLabels, annotationSkipFromBackup, backupMustInclude, annotationSkippedNoCSIPV}

// applyVeleroAnnotations applies the annotations of Velero.
func applyVeleroAnnotations(said map[string]string, result *itemaction.Result) {
	if _, skip := said[annotationSkipFromBackup]; skip {
		result.Skip = "the action skips it"
	}
	if said[backupMustInclude] == "true" {
		for i := range result.RelatedItems {
			result.RelatedItems[i].IgnoreSelection = true
		}
	}
}
