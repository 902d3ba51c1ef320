// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// maxNamed is how many backups are named in a condition.
const maxNamed = 10

// Report is the result of one sync of a location.
type Report struct {
	// Found is the number of backups in the location.
	Found int
	// Imported is how many objects were created or completed. Marked is how many were found to
	// have lost their data, or to have it again.
	Imported, Marked int
	// Excluded is how many backups of others have no Backup, because the location may have only
	// Limit imported ones or the import is Disabled. Removed is how many Backups made way for
	// newer ones.
	Excluded, Limit, Removed int
	Disabled                 bool
	// Unreadable is how many backups cannot be imported. The first of them are in Problems, with
	// the reason.
	Unreadable int
	Problems   []string
	// Renamed maps the names of objects that were imported under a different name to their stored
	// names.
	Renamed map[string]string
	// Truncated is set if the location has more backups than a sync reads.
	Truncated bool
	// TombstoneProblem is why not all tombstones can be recorded, and what to do; "" if they can.
	TombstoneProblem string
}

// addUnreadable records a backup that cannot be imported.
func (r *Report) addUnreadable(name, reason string) {
	r.Unreadable++
	if len(r.Problems) < maxNamed {
		r.Problems = append(r.Problems, name+": "+reason)
	}
}

// syncedCondition is the condition Synced of a location.
type syncedCondition struct {
	status          metav1.ConditionStatus
	reason, message string
}

// syncedCondition returns the condition for the result of a sync.
func (r *Report) syncedCondition() syncedCondition {
	switch {
	case r.Unreadable > 0:
		text := fmt.Sprintf("%s cannot be imported: %s", formatCount(r.Unreadable, "backup"), strings.Join(r.Problems, "; "))
		if more := r.Unreadable - len(r.Problems); more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		return syncedCondition{metav1.ConditionFalse, v1alpha1.ReasonBackupsUnreadable, text +
			". Repair or remove their files in the location, update Grapnel if a newer version wrote them, or change the policy or quota that rejects them" + r.excludedMessage()}
	case r.Truncated:
		return syncedCondition{metav1.ConditionFalse, v1alpha1.ReasonBackupsUnreadable, fmt.Sprintf(
			"There are more than %d backups in the location, and only the first of them are read; give each cluster its own prefix", maxListed)}
	}
	if r.TombstoneProblem != "" {
		return syncedCondition{metav1.ConditionFalse, v1alpha1.ReasonTooManyBackups, r.TombstoneProblem}
	}
	reason, text := v1alpha1.ReasonSynced, "Every finished backup of the location that was not removed here has a Backup"
	if r.Excluded > 0 {
		reason, text = v1alpha1.ReasonImportLimited, strings.TrimPrefix(r.excludedMessage(), ". ")
		if r.Disabled {
			reason = v1alpha1.ReasonImportDisabled
		}
	}
	if len(r.Renamed) > 0 {
		text += "; imported under a different name: " + r.renamedMessage()
	}
	return syncedCondition{metav1.ConditionTrue, reason, text}
}

// excludedMessage returns how many backups have no Backup, and what to do; "" if none is excluded.
func (r *Report) excludedMessage() string {
	switch {
	case r.Excluded == 0:
		return ""
	case r.Disabled:
		return fmt.Sprintf(". %s of others are not imported because spec.sync turns the import off; Restores and DeletionRuns can still name them", formatCount(r.Excluded, "backup"))
	}
	return fmt.Sprintf(". %s of others are not imported: only the newest %d are (spec.sync.maxBackups); Restores and DeletionRuns can still name the others. "+
		"To import more, raise the limit, or give each cluster its own prefix", formatCount(r.Excluded, "backup"), r.Limit)
}

// renamedMessage lists the first backups that were imported under a different name.
func (r *Report) renamedMessage() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(r.Renamed)) {
		if len(texts) == maxNamed {
			texts = append(texts, fmt.Sprintf("and %d more", len(r.Renamed)-maxNamed))
			break
		}
		texts = append(texts, fmt.Sprintf("%s (%s in the location)", name, r.Renamed[name]))
	}
	return strings.Join(texts, ", ")
}

func formatCount(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
