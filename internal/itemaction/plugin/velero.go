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
	// skipFromBackup, whatever its value, leaves the object out.
	skipFromBackup = "velero.io/skip-from-backup"
	// mustInclude with the value "true" archives the additional items even if the
	// selection excludes them.
	mustInclude = "backup.velero.io/must-include-additional-items"
	// skippedVolume says that a volume is none of CSI, which means nothing here.
	skippedVolume = "backup.velero.io/skipped-no-csi-pv"
)

// understood are the annotations that are taken from what an action returns.
var understood = []string{item.AnnotationBackupLabels, skipFromBackup, mustInclude, skippedVolume}

// obeyVelero does what the annotations of Velero say.
func obeyVelero(said map[string]string, result *itemaction.Result) {
	if _, skip := said[skipFromBackup]; skip {
		result.Skip = "the action leaves it out"
	}
	if said[mustInclude] == "true" {
		for i := range result.Related {
			result.Related[i].Always = true
		}
	}
}
