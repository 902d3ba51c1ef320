// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/retention"
)

const (
	// clockTolerance is the accepted difference between clocks.
	clockTolerance = 5 * time.Minute
	// minMassExpiry is how many Backups of a location must be due at once for a mass expiry: a
	// few Backups are no pattern.
	minMassExpiry = 5
	// minExpiriesPerHour is how many Backups of a location expire in an hour. The limit is higher if
	// there are very many, or if as many begin.
	minExpiriesPerHour = 20
	// rateLimitRequeue is the time between two attempts to expire a Backup while the rate is limited.
	rateLimitRequeue = 5 * time.Minute
	// maxCountsAge is how long the counts of a location are valid.
	maxCountsAge = 10 * time.Second
)

// expiryCounts counts the Backups of a location for the mass expiry check.
type expiryCounts struct {
	countedAt time.Time
	// clockSkew is how far the clock of the API server is ahead.
	clockSkew time.Duration
	// retained are the finished Backups that are not being destroyed; due are those of them that have
	// expired and that no keepLast protects; peers are the retained ones that began at most an
	// hour after the last of the due ones expired.
	retained, due, peers int
	// expiring are being destroyed or were in the last hour; startedLastHour began in it.
	expiring, startedLastHour int
}

// isMassExpiry reports whether so many Backups are due at once that a clock may be wrong. Backups that
// are being or were destroyed do not count: with a short ttl they are the majority.
func (s expiryCounts) isMassExpiry() bool { return s.due >= minMassExpiry && 2*s.due > s.peers }

// canExpireAnother reports whether one more may expire now. The limit keeps up with any ttl: a few
// expire when they are due, and as many as new ones begin.
func (s expiryCounts) canExpireAnother() bool {
	return s.due < minMassExpiry || s.expiring < max(minExpiriesPerHour, (s.retained+s.expiring)/4, s.startedLastHour)
}

// expiryCountsCache caches the counts of all locations for a short time: many Backups may be due at once,
// and each reconcile would count all of them. It is safe for concurrent use.
type expiryCountsCache struct {
	mu         sync.Mutex
	byLocation map[types.NamespacedName]expiryCounts
}

func (s *expiryCountsCache) getCounts(key types.NamespacedName, now time.Time) (expiryCounts, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.byLocation[key]
	age := now.Sub(known.countedAt)
	return known, ok && age >= 0 && age < maxCountsAge
}

func (s *expiryCountsCache) putCounts(key types.NamespacedName, counted expiryCounts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byLocation == nil {
		s.byLocation = map[types.NamespacedName]expiryCounts{}
	}
	s.byLocation[key] = counted
}

func (s *expiryCountsCache) deleteCounts(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byLocation, key)
}

// recordExpiring records that a Backup is being destroyed.
func (s *expiryCountsCache) recordExpiring(b *v1alpha1.Backup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if counted, ok := s.byLocation[locationKey(b)]; ok {
		counted.expiring, counted.retained, counted.due, counted.peers = counted.expiring+1, counted.retained-1, counted.due-1, counted.peers-1
		s.byLocation[locationKey(b)] = counted
	}
}

func locationKey(b *v1alpha1.Backup) types.NamespacedName {
	return types.NamespacedName{Namespace: b.Namespace, Name: b.Location()}
}

// timeUntilExpiryAllowed returns 0 if a due Backup may be destroyed now, or when to check again. A wrong
// clock must not destroy Backups that are still needed:
//
//   - The Backup is due by the clock of the API server, too. It runs on another machine, and
//     objects have been created by it.
//   - No more than half of the Backups of the location are due at once, unless a person allows it.
//   - If many are due, no more than a quarter of them expire in an hour, or as many as begin in it,
//     so that a person has time to notice.
//
// A Backup without a location stored nothing.
func (r *Reconciler) timeUntilExpiryAllowed(ctx context.Context, b *v1alpha1.Backup) (wait time.Duration, err error) {
	if b.Location() == "" {
		return 0, nil
	}
	counted, err := r.getExpiryCounts(ctx, b)
	if isNamespaceTerminating(err) {
		return recheckInterval, nil
	}
	if err != nil {
		return 0, err
	}
	var bsl v1alpha1.BackupStorageLocation
	if err := r.Client.Get(ctx, locationKey(b), &bsl); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("reading BackupStorageLocation %s: %w", b.Location(), err)
	}
	serverNow := r.Now().Add(counted.clockSkew)
	if left := b.Status.Expiration.Sub(serverNow); left > 0 {
		if counted.clockSkew > -clockTolerance {
			return min(left, recheckInterval), nil
		}
		return min(left, recheckInterval), r.setExpiryHeld(ctx, &bsl, b, metav1.ConditionTrue, v1alpha1.ReasonClockAhead, fmt.Sprintf(
			"Backups are due by the clock of the operator, which is %s ahead of that of the API server; a Backup expires only when it is due by both. "+
				"Fix the clocks of their nodes", (-counted.clockSkew).Round(time.Minute)))
	}
	if counted.isMassExpiry() && !isMassExpiryAllowed(&bsl, serverNow) {
		return recheckInterval, r.setExpiryHeld(ctx, &bsl, b, metav1.ConditionTrue, v1alpha1.ReasonMassExpiry, massExpiryMessage(&bsl, b, counted, serverNow))
	}
	if !counted.canExpireAnother() {
		return rateLimitRequeue, nil
	}
	return 0, r.resumeExpiry(ctx, b)
}

// massExpiryMessage returns what is due, and what a user can do.
func massExpiryMessage(bsl *v1alpha1.BackupStorageLocation, b *v1alpha1.Backup, counted expiryCounts, serverNow time.Time) string {
	wrong := ""
	if value := bsl.Annotations[v1alpha1.AnnotationAllowMassExpiryUntil]; value != "" {
		if _, err := time.Parse(time.RFC3339, value); err != nil {
			wrong = fmt.Sprintf(" (its value %.40q is not an RFC 3339 time)", value)
		}
	}
	return fmt.Sprintf("%d of %d Backups of BackupStorageLocation %s are due at once, and none of them expires: a clock or a ttl may be wrong. "+
		"If they should be destroyed, annotate the location with %s=%s%s; if not, raise or remove their spec.ttl",
		counted.due, counted.peers, b.Location(), v1alpha1.AnnotationAllowMassExpiryUntil,
		serverNow.UTC().Truncate(time.Hour).Add(24*time.Hour).Format(time.RFC3339), wrong)
}

// isMassExpiryAllowed reports whether a person has allowed that most Backups of a location expire.
func isMassExpiryAllowed(bsl *v1alpha1.BackupStorageLocation, now time.Time) bool {
	until, err := time.Parse(time.RFC3339, bsl.Annotations[v1alpha1.AnnotationAllowMassExpiryUntil])
	return err == nil && now.Before(until)
}

// getExpiryCounts returns the counts of the location of a Backup.
func (r *Reconciler) getExpiryCounts(ctx context.Context, b *v1alpha1.Backup) (expiryCounts, error) {
	key := locationKey(b)
	if known, ok := r.expiryCounts.getCounts(key, r.Now()); ok {
		return known, nil
	}
	serverNow, err := r.ServerTime(ctx, b.Namespace)
	if err != nil {
		return expiryCounts{}, err
	}
	counted, err := r.countExpiries(ctx, key, serverNow)
	if err != nil {
		return expiryCounts{}, err
	}
	counted.countedAt, counted.clockSkew = r.Now(), serverNow.Sub(r.Now())
	r.expiryCounts.putCounts(key, counted)
	return counted, nil
}

// countExpiries counts the Backups of a location at the given time.
func (r *Reconciler) countExpiries(ctx context.Context, key types.NamespacedName, now time.Time) (counted expiryCounts, err error) {
	var (
		backups   v1alpha1.BackupList
		deletions v1alpha1.DeletionRunList
		schedules v1alpha1.ScheduleList
	)
	for _, list := range []client.ObjectList{&backups, &deletions, &schedules} {
		if err := r.Client.List(ctx, list, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return expiryCounts{}, fmt.Errorf("counting the expiring Backups of BackupStorageLocation %s: %w", key.Name, err)
		}
	}
	staying := slices.DeleteFunc(slices.Clone(backups.Items), func(b v1alpha1.Backup) bool { return retention.HasPendingDeletion(&b, deletions.Items) })
	counted.addBackups(staying, key.Name, retention.ProtectedBackups(schedules.Items, staying, now), now)
	there := map[types.UID]bool{}
	for i := range backups.Items {
		if b := &backups.Items[i]; b.Location() == key.Name {
			there[b.UID] = true
		}
	}
	counted.addDeletions(deletions.Items, key.Name, there, now)
	return counted, nil
}

// addBackups counts the Backups of a location that are not being destroyed, some of which are kept.
// Backups that began long after the last one was due do not count as peers: a clock that is wrong for a
// long time makes new Backups, too.
func (s *expiryCounts) addBackups(backups []v1alpha1.Backup, location string, kept map[types.UID]bool, now time.Time) {
	var began []time.Time
	var lastDue time.Time
	for i := range backups {
		b := &backups[i]
		if b.Location() != location || b.Spec.ImportedFrom != nil || !lifecycle.IsFinalized(b) || !b.DeletionTimestamp.IsZero() {
			continue
		}
		s.retained++
		at := retentionStart(b)
		began = append(began, at)
		if isWithinLast(at, now, time.Hour) {
			s.startedLastHour++
		}
		if end := expirationTime(b); end != nil && !end.After(now) && !kept[b.UID] {
			s.due++
			if end.After(lastDue) {
				lastDue = end.Time
			}
		}
	}
	for _, at := range began {
		if at.Before(lastDue.Add(time.Hour)) {
			s.peers++
		}
	}
}

// addDeletions counts the expirations of a location that are in progress or finished within the hour.
// there are the Backups of the location.
func (s *expiryCounts) addDeletions(deletions []v1alpha1.DeletionRun, location string, there map[types.UID]bool, now time.Time) {
	for i := range deletions {
		d := &deletions[i]
		if d.Spec.Cause != v1alpha1.DeletionCauseExpired || (!there[types.UID(d.Spec.BackupUID)] && d.Status.StorageLocation != location) {
			continue
		}
		if !lifecycle.IsFinished(d) || (lifecycle.IsCompletedOrPartiallyFailed(d) && isWithinLast(d.Status.CompletionTimestamp.Time, now, time.Hour)) {
			s.expiring++
		}
	}
}

// isWithinLast reports whether a time is less than long ago. A time in the future was recorded by a
// clock that has been set back since, and counts as any time.
func isWithinLast(at, now time.Time, long time.Duration) bool {
	age := now.Sub(at)
	return age > -clockTolerance && age < long
}

// resumeExpiry sets ExpiryHeld to False on the location of a Backup, if it was True.
func (r *Reconciler) resumeExpiry(ctx context.Context, b *v1alpha1.Backup) error {
	if b.Location() == "" {
		return nil
	}
	var bsl v1alpha1.BackupStorageLocation
	err := r.Client.Get(ctx, locationKey(b), &bsl)
	if err != nil || !conditions.IsTrue(&bsl, v1alpha1.ConditionExpiryHeld) {
		return client.IgnoreNotFound(err)
	}
	counted, err := r.getExpiryCounts(ctx, b)
	switch serverNow := r.Now().Add(counted.clockSkew); {
	case isNamespaceTerminating(err):
		return nil
	case err != nil:
		return err
	case counted.clockSkew <= -clockTolerance, counted.isMassExpiry() && !isMassExpiryAllowed(&bsl, serverNow):
		return nil
	}
	return r.setExpiryHeld(ctx, &bsl, b, metav1.ConditionFalse, v1alpha1.ReasonExpiryResumed, "Backups expire again when they are due")
}

// setExpiryHeld sets the condition ExpiryHeld of a location, and emits an event when it changes. If the
// location does not exist, the event is about the Backup.
func (r *Reconciler) setExpiryHeld(
	ctx context.Context, bsl *v1alpha1.BackupStorageLocation, b *v1alpha1.Backup, status metav1.ConditionStatus, reason, message string,
) error {
	kind := corev1.EventTypeWarning
	if status == metav1.ConditionFalse {
		kind = corev1.EventTypeNormal
	}
	if bsl.UID == "" {
		r.Recorder.Eventf(b, nil, kind, reason, "Expire", "%s", lifecycle.TruncateEventNote(message))
		return nil
	}
	before := bsl.DeepCopy()
	conditions.Set(bsl, v1alpha1.ConditionExpiryHeld, status, reason, message)
	if equality.Semantic.DeepEqual(before.Status, bsl.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	switch err := r.Client.Status().Patch(ctx, bsl, patch); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the next Backup sets it
	case err != nil:
		return fmt.Errorf("writing the status of BackupStorageLocation %s: %w", bsl.Name, err)
	}
	if known := conditions.Get(before, v1alpha1.ConditionExpiryHeld); known == nil || known.Status != status || known.Reason != reason {
		r.Recorder.Eventf(bsl, nil, kind, reason, "Expire", "%s", lifecycle.TruncateEventNote(message))
	}
	return nil
}
