// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
)

var persistentVolumeClaims = schema.GroupResource{Resource: "persistentvolumeclaims"}

// claimListKey is the key of claims in ArchiveResult.ResourceList.
const claimListKey = "v1/PersistentVolumeClaim"

// VolumeCounts counts the PersistentVolumeClaims of a backup.
type VolumeCounts struct {
	// Claims is how many are archived, or are missing because of an error. Skipped is how many of
	// the archived ones no action started an operation on, so that the backup does not have their
	// data.
	Claims  int `json:"claims"`
	Skipped int `json:"skipped"`
}

// maxNamedClaims is how many claims a warning names.
const maxNamedClaims = 1000

// noCaptureReason is why the data of a claim is not captured if no action says more.
const noCaptureReason = "no action captures the data: install a Plugin that does, such as csi, or exclude the claim from the backup"

// claimRecorder collects the claims of a run. It is safe for concurrent use; the zero value is
// ready to use.
type claimRecorder struct {
	mu sync.Mutex
	// claims is how many claims are archived, or are missing because of an error.
	claims int
	// reasons has what actions said about claims whose data they do not capture, and skipped
	// those without an operation by reason.
	reasons map[itemKey]string
	skipped map[string][]results.Subject
}

func (r *claimRecorder) addReason(claim itemKey, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reasons == nil {
		r.reasons = map[itemKey]string{}
	}
	r.reasons[claim] = reason
}

func (r *claimRecorder) addClaim(claim itemKey, about results.Subject, captured bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims++
	if captured {
		return
	}
	reason, known := r.reasons[claim]
	if !known {
		reason = noCaptureReason
	}
	if r.skipped == nil {
		r.skipped = map[string][]results.Subject{}
	}
	r.skipped[reason] = append(r.skipped[reason], about)
}

// addMissingClaim counts a claim that an error keeps out of the archive.
func (r *claimRecorder) addMissingClaim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims++
}

// recordClaim records a claim that is archived. An operation on it captures its data, and reports
// its own outcome.
func (c *collection) recordClaim(item rawclient.Item) {
	if !c.isNewClaim(&item) {
		return
	}
	claim := itemKey{c.resource.GVR, item.Namespace, item.Name}
	c.claims.addClaim(claim, c.subject(item.Namespace, item.Name), c.reports.hasOperation(claim))
}

// recordMissingClaim records that an object is not archived because of an error, if it is a claim:
// its data cannot be restored.
func (c *collection) recordMissingClaim(item *rawclient.Item) {
	if c.isNewClaim(item) {
		c.claims.addMissingClaim()
	}
}

// isNewClaim reports whether an object is a claim that is not counted yet.
func (c *collection) isNewClaim(item *rawclient.Item) bool {
	if c.resource.GroupResource() != persistentVolumeClaims || !c.resource.Preferred {
		return false
	}
	_, archived := slices.BinarySearch(c.req.ArchivedClaims, item.Key)
	return !archived
}

// reportClaims reports the claims whose data is not in the backup, once for each reason.
func (r *enginePass) reportClaims() VolumeCounts {
	r.claims.mu.Lock()
	defer r.claims.mu.Unlock()
	counts := VolumeCounts{Claims: r.claims.claims}
	for _, reason := range slices.Sorted(maps.Keys(r.claims.skipped)) {
		skipped := r.claims.skipped[reason]
		counts.Skipped += len(skipped)
		about, message := describeSkippedClaims(skipped, reason)
		if r.req.RequireCaptured {
			r.recordError(about, results.ReasonDataNotCaptured, errors.New(message))
		} else {
			r.results.Warn(about, results.ReasonDataNotCaptured, message)
		}
	}
	return counts
}

// describeSkippedClaims returns a warning about claims that are skipped for the same reason, and what
// the warning is about. The names come last: a status has only the beginning of a long message.
func describeSkippedClaims(skipped []results.Subject, reason string) (results.Subject, string) {
	if len(skipped) == 1 {
		claim := skipped[0]
		return claim, fmt.Sprintf("PersistentVolumeClaim %q has no data in this backup, only its objects: %s", claim.Namespace+"/"+claim.Name, reason)
	}
	about := results.Subject{Resource: persistentVolumeClaims.String(), Namespace: skipped[0].Namespace}
	names := make([]string, len(skipped))
	for i, claim := range skipped {
		names[i] = claim.Namespace + "/" + claim.Name
		if claim.Namespace != about.Namespace {
			about.Namespace = ""
		}
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - maxNamedClaims; n > 0 {
		names, more = names[:maxNamedClaims], fmt.Sprintf(" and %d more", n)
	}
	return about, fmt.Sprintf("%d PersistentVolumeClaims have no data in this backup, only their objects: %s: %s%s",
		len(skipped), reason, strings.Join(names, ", "), more)
}
