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

// reasonTooManyBackups is why a location is not in sync whose backups can not all be noted.
const reasonTooManyBackups = "TooManyBackups"

// Report is what one look at a location found and did.
type Report struct {
	// Found is how many backups the location has.
	Found int
	// Imported is how many objects were created or completed, Marked how many were
	// found to have lost their data, or to have it again.
	Imported, Marked int
	// Excluded is how many backups of others have no Backup, as the location may have only
	// Limit imported ones, or as the import is Disabled; Removed is how many Backups made
	// way for newer ones.
	Excluded, Limit, Removed int
	Disabled                 bool
	// Unreadable is how many backups can not be imported; the first of them are in
	// Problems, with the reason.
	Unreadable int
	Problems   []string
	// Renamed has the names in the location of those that are called otherwise here, by
	// the names of their objects.
	Renamed map[string]string
	// Truncated is set if the location has more backups than are looked at.
	Truncated bool
	// TombstoneProblem says why not all Backups can be noted, and what to do; "" if they can.
	TombstoneProblem string
}

// addUnreadable notes a backup that can not be imported.
func (r *Report) addUnreadable(name, reason string) {
	r.Unreadable++
	if len(r.Problems) < maxNamed {
		r.Problems = append(r.Problems, name+": "+reason)
	}
}

// syncedCondition is what a location says of the last look.
type syncedCondition struct {
	status          metav1.ConditionStatus
	reason, message string
}

// syncedCondition returns what a look came to.
func (r *Report) syncedCondition() syncedCondition {
	switch {
	case r.Unreadable > 0:
		text := fmt.Sprintf("%s can not be imported: %s", formatCount(r.Unreadable, "backup"), strings.Join(r.Problems, "; "))
		if more := r.Unreadable - len(r.Problems); more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		return syncedCondition{metav1.ConditionFalse, v1alpha1.ReasonBackupsUnreadable, text +
			". Repair or remove their files in the location, update Grapnel if a newer version wrote them, or change the policy or quota that refuses them" + r.excludedMessage()}
	case r.Truncated:
		return syncedCondition{metav1.ConditionFalse, v1alpha1.ReasonBackupsUnreadable, fmt.Sprintf(
			"There are more than %d backups in the location, and only the first of them are looked at; give each cluster its own prefix", maxListed)}
	}
	if r.TombstoneProblem != "" {
		return syncedCondition{metav1.ConditionFalse, reasonTooManyBackups, r.TombstoneProblem}
	}
	reason, text := v1alpha1.ReasonSynced, "Every backup of the location that has ended, and was not removed here, has its Backup"
	if r.Excluded > 0 {
		reason, text = v1alpha1.ReasonImportLimited, strings.TrimPrefix(r.excludedMessage(), ". ")
		if r.Disabled {
			reason = v1alpha1.ReasonImportDisabled
		}
	}
	if len(r.Renamed) > 0 {
		text += "; another name than in the location has " + r.renamedMessage()
	}
	return syncedCondition{metav1.ConditionTrue, reason, text}
}

// excludedMessage says how many backups have no Backup, and what to do; "" if none is left out.
func (r *Report) excludedMessage() string {
	switch {
	case r.Excluded == 0:
		return ""
	case r.Disabled:
		return fmt.Sprintf(". %s of others are not imported, as spec.sync.disabled is set; Restores and DeletionRuns can name them all the same", formatCount(r.Excluded, "backup"))
	}
	return fmt.Sprintf(". %s of others are not imported: the newest %d are (spec.sync.maxBackups); Restores and DeletionRuns can name the others all the same. "+
		"To see more, raise it, or give each cluster its own prefix", formatCount(r.Excluded, "backup"), r.Limit)
}

// renamedMessage names the first of the backups that are called otherwise here.
func (r *Report) renamedMessage() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(r.Renamed)) {
		if len(texts) == maxNamed {
			texts = append(texts, fmt.Sprintf("and %d more", len(r.Renamed)-maxNamed))
			break
		}
		texts = append(texts, fmt.Sprintf("%s (which is %s there)", name, r.Renamed[name]))
	}
	return strings.Join(texts, ", ")
}

func formatCount(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
