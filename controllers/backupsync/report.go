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

// reasonFull is why a location is not in sync whose backups can not all be noted.
const reasonFull = "TooManyBackups"

// Report is what one look at a location found and did.
type Report struct {
	// Found is how many backups the location has.
	Found int
	// Imported is how many objects were created or completed, Marked how many were
	// found to have lost their data, or to have it again.
	Imported, Marked int
	// Unreadable is how many backups can not be imported; the first of them are in
	// Problems, with the reason.
	Unreadable int
	Problems   []string
	// Renamed has the names in the location of those that are called otherwise here, by
	// the names of their objects.
	Renamed map[string]string
	// Truncated is set if the location has more backups than are looked at.
	Truncated bool
	// Full says why not all Backups can be noted, and what to do; "" if they can.
	Full string
}

// unreadable notes a backup that can not be imported.
func (r *Report) unreadable(name, reason string) {
	r.Unreadable++
	if len(r.Problems) < maxNamed {
		r.Problems = append(r.Problems, name+": "+reason)
	}
}

// verdict is what a location says of the last look.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// verdict returns what a look came to.
func (r *Report) verdict() verdict {
	switch {
	case r.Unreadable > 0:
		text := fmt.Sprintf("%s can not be imported: %s", count(r.Unreadable, "backup"), strings.Join(r.Problems, "; "))
		if more := r.Unreadable - len(r.Problems); more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonBackupsUnreadable, text +
			". Repair or remove their files in the location, update Grapnel if a newer version wrote them, or change the policy or quota that refuses them"}
	case r.Truncated:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonBackupsUnreadable, fmt.Sprintf(
			"There are more than %d backups in the location, and only the first of them are looked at; give each cluster its own prefix", maxListed)}
	}
	if r.Full != "" {
		return verdict{metav1.ConditionFalse, reasonFull, r.Full}
	}
	text := "Every backup of the location that has ended, and was not removed here, has its Backup"
	if len(r.Renamed) > 0 {
		text += "; another name than in the location has " + r.renamed()
	}
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonSynced, text}
}

// renamed names the first of the backups that are called otherwise here.
func (r *Report) renamed() string {
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

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
