// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

const year = 365 * 24 * time.Hour

// location creates the location in which Backups are stored.
func (s *stage) location() *v1alpha1.BackupStorageLocation {
	s.t.Helper()
	return suite.Create(s.Env, &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Name: "main"}, Spec: v1alpha1.BackupStorageLocationSpec{Filesystem: &v1alpha1.FilesystemLocation{}},
	})
}

// backups creates Backups of today.
func (s *stage) backups(n int, edits ...func(*v1alpha1.Backup)) []*v1alpha1.Backup {
	s.t.Helper()
	var all []*v1alpha1.Backup
	for i := range n {
		all = append(all, s.backup(fmt.Sprintf("b-%02d", i), edits...))
	}
	return all
}

// atAll reconciles all Backups at a time, until none is to be reconciled immediately.
func (s *stage) atAll(since time.Duration, all []*v1alpha1.Backup) {
	s.t.Helper()
	for _, b := range all {
		s.at(since, b)
	}
}

// numDoomed returns the number of DeletionRuns.
func (s *stage) numDoomed() int { return len(s.deletions()) }

// expectHoldCondition checks the condition ExpiryHeld of a location.
func (s *stage) expectHoldCondition(bsl *v1alpha1.BackupStorageLocation, status metav1.ConditionStatus, reason, message string) {
	s.t.Helper()
	suite.GetIfExists(s.Env, bsl)
	held := conditions.Get(bsl, v1alpha1.ConditionExpiryHeld)
	if held == nil || held.Status != status || held.Reason != reason || !strings.Contains(held.Message, message) {
		s.t.Errorf("the condition is %+v, want %s because of %s: …%s…", held, status, reason, message)
	}
}

var _ = Describe("The expiration of many Backups at once", Label("schedule"), func() {
	It("stops when the operator's clock is a year ahead", func() {
		t := GinkgoTB()
		s := newStage(t)
		bsl := s.location()
		all := s.backups(50)
		s.atAll(0, all)
		s.skew = -year
		s.atAll(year, all)
		s.expectDoomed()
		s.expectHoldCondition(bsl, metav1.ConditionTrue, v1alpha1.ReasonClockAhead, "8760h0m0s ahead of that of the API server")
		s.expectTold("Warning ClockAhead Expire: Backups are due by the clock of the operator")
		s.skew = 0
		s.atAll(time.Hour, all)
		s.expectDoomed()
		s.expectHoldCondition(bsl, metav1.ConditionFalse, v1alpha1.ReasonExpiryResumed, "expire again")
		s.expectTold("Normal ExpiryResumed Expire: ")
	})

	It("stops when all clocks are ahead", func() {
		t := GinkgoTB()
		s := newStage(t)
		bsl := s.location()
		all := s.backups(50)
		s.atAll(0, all)
		s.atAll(year, all)
		s.expectDoomed()
		s.expectHoldCondition(bsl, metav1.ConditionTrue, v1alpha1.ReasonMassExpiry, "50 of 50 Backups of BackupStorageLocation main are due at once")
		s.expectTold("Warning MassExpiry Expire: …annotate the location with grapnel.dev/allow-mass-expiry-until=20")

		for value, says := range map[string]string{"true": `(its value "true" is not an RFC 3339 time)`, s.start.Format(time.RFC3339): "none of them expires"} {
			suite.UpdateWithRetry(s.Env, bsl, func(l *v1alpha1.BackupStorageLocation) {
				l.Annotations = map[string]string{v1alpha1.AnnotationAllowMassExpiryUntil: value}
			})
			s.r.locationToBackups(t.Context(), bsl)
			s.atAll(year, all)
			s.expectDoomed()
			s.expectHoldCondition(bsl, metav1.ConditionTrue, v1alpha1.ReasonMassExpiry, says)
		}

		// A user's permission lets them expire, some in each hour.
		suite.UpdateWithRetry(s.Env, bsl, func(l *v1alpha1.BackupStorageLocation) {
			l.Annotations = map[string]string{v1alpha1.AnnotationAllowMassExpiryUntil: s.start.Add(year + 48*time.Hour).Format(time.RFC3339)}
		})
		if requests := s.r.locationToBackups(t.Context(), bsl); len(requests) != 50 {
			t.Errorf("%d Backups are reconciled when the location is annotated", len(requests))
		}
		s.told = nil
		s.atAll(year+time.Minute, all)
		if n := s.numDoomed(); n != 20 {
			t.Errorf("%d Backups expire at once, want 20", n)
		}
		s.expectHoldCondition(bsl, metav1.ConditionFalse, v1alpha1.ReasonExpiryResumed, "")
		for _, d := range s.deletions() {
			s.ends(&d, v1alpha1.RunPhaseCompleted)
		}
		s.atAll(year+30*time.Minute, all)
		if n := s.numDoomed(); n != 20 {
			t.Errorf("%d Backups have expired within an hour, want 20", n)
		}
		s.atAll(year+30*time.Hour, all)
		if n := s.numDoomed(); n != 40 {
			t.Errorf("%d Backups have expired after more than an hour, want 40", n)
		}
	})

	Context("does not affect usual nights", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			backups, due int
			wantGone     int
		}{
			"the only one":      {backups: 1, due: 1, wantGone: 1},
			"both":              {backups: 2, due: 2, wantGone: 2},
			"all of a few":      {backups: 4, due: 4, wantGone: 4},
			"one of eight":      {backups: 8, due: 1, wantGone: 1},
			"half of them":      {backups: 12, due: 6, wantGone: 6},
			"more than half":    {backups: 9, due: 5},
			"all of five":       {backups: 5, due: 5},
			"many of very many": {backups: 60, due: 25, wantGone: 20},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				s.location()
				due := s.backups(tc.due)
				for i := range tc.backups - tc.due {
					s.backup(fmt.Sprintf("young-%02d", i), func(b *v1alpha1.Backup) { b.Spec.TTL = &metav1.Duration{Duration: 9 * month} })
				}
				s.backup("theirs", func(b *v1alpha1.Backup) { b.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: "main"} })
				s.backup("elsewhere", func(b *v1alpha1.Backup) { b.Status.StorageLocation = "other" })
				s.atAll(month, due)
				if n := s.numDoomed(); n != tc.wantGone {
					t.Errorf("%d Backups expire, want %d", n, tc.wantGone)
				}
			})
		}
	})

	It("counts Backups that are being destroyed", func() {
		t := GinkgoTB()
		s := newStage(t)
		s.location()
		due, later := s.backups(6), []*v1alpha1.Backup(nil)
		s.backup("good", without)
		for i := range 5 {
			later = append(later, s.backup(fmt.Sprintf("later-%02d", i), lasting(month+time.Minute)))
		}
		s.atAll(month, due)
		first := []string{"b-00", "b-01", "b-02", "b-03", "b-04", "b-05"}
		s.expectDoomed(first...)
		s.atAll(month+2*time.Minute, later) // while those are destroyed
		s.expectDoomed(first...)
		s.gone(due)
		s.atAll(month+4*time.Minute, later) // after they were destroyed
		s.expectDoomed(first...)
		s.atAll(month+3*time.Hour, later)
		s.expectDoomed(first...)
	})

	It("continues for an hour when a user allows it", func() {
		t := GinkgoTB()
		s := newStage(t)
		bsl := s.location()
		all := s.backups(50)
		suite.UpdateWithRetry(s.Env, bsl, func(l *v1alpha1.BackupStorageLocation) {
			l.Annotations = map[string]string{v1alpha1.AnnotationAllowMassExpiryUntil: s.start.Add(year + time.Hour).Format(time.RFC3339)}
		})
		s.atAll(year, all)
		if n := s.numDoomed(); n != 20 {
			t.Errorf("%d Backups expire, want 20", n)
		}
		left := s.gone(all)
		s.atAll(year+2*time.Hour, left)
		if n := s.numDoomed(); n != 20 {
			t.Errorf("%d Backups have expired after the end of the permission, want 20", n)
		}
		s.expectHoldCondition(bsl, metav1.ConditionTrue, v1alpha1.ReasonMassExpiry, "30 of 30 Backups")
	})

	It("stays stopped while the wrong clock is used for new Backups", func() {
		t := GinkgoTB()
		s := newStage(t)
		bsl := s.location()
		all := s.backups(10)
		for i := range 20 {
			at := metav1.Time{Time: s.start.Add(year + time.Duration(i)*time.Hour)}
			s.backup(fmt.Sprintf("new-%02d", i), func(b *v1alpha1.Backup) { b.Status.StartTimestamp, b.Status.CompletionTimestamp = &at, &at })
		}
		s.atAll(year+24*time.Hour, all)
		s.expectDoomed()
		s.expectHoldCondition(bsl, metav1.ConditionTrue, v1alpha1.ReasonMassExpiry, "10 of 10 Backups")
	})

	Context("counts only Backups that may expire", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			keep, nights, want int
			at                 time.Duration
		}{
			"a usual night": {keep: 7, nights: 8, at: 8 * 24 * time.Hour, want: 1},
			"all kept":      {keep: 8, nights: 8, at: 8 * 24 * time.Hour},
			"a year ahead":  {keep: 7, nights: 20, at: year},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				s.location()
				keep := int32(tc.keep)
				s.schedule(&keep)
				var all []*v1alpha1.Backup
				for n := range tc.nights {
					all = append(all, s.night(n+1, night{phase: "Completed", edit: lasting(24 * time.Hour)}))
				}
				s.atAll(tc.at, all)
				s.atAll(tc.at+time.Minute, all)
				if n := s.numDoomed(); n != tc.want {
					t.Errorf("%d Backups expire, want %d", n, tc.want)
				}
			})
		}
	})

	Context("does not affect Backups with a short ttl", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			ttl, every time.Duration
			// each is how many begin at a time.
			each, times int
		}{
			"twelve an hour for an hour":        {ttl: time.Hour, every: 5 * time.Minute, each: 1, times: 30},
			"thirty an hour for ten minutes":    {ttl: 10 * time.Minute, every: 2 * time.Minute, each: 1, times: 60},
			"twenty-five in each hour, at once": {ttl: time.Hour, every: time.Hour, each: 25, times: 4},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				s.location()
				var all []*v1alpha1.Backup
				for i := range tc.times {
					at := metav1.Time{Time: s.start.Add(time.Duration(i) * tc.every)}
					for j := range tc.each {
						all = append(all, s.backup(fmt.Sprintf("b-%02d-%02d", i, j), lasting(tc.ttl), func(b *v1alpha1.Backup) {
							b.Status.StartTimestamp, b.Status.CompletionTimestamp = &at, &at
						}))
					}
					s.now = at.Add(time.Minute)
					s.r.expiryCounts.deleteCounts(locationKey(all[0]))
					for _, b := range all {
						s.at(s.now.Sub(s.start), b)
					}
					all = s.gone(all)
					if most := tc.each * (int(tc.ttl/tc.every) + 1); len(all) > most {
						t.Fatalf("%d Backups stay after %v, want %d at most", len(all), s.now.Sub(s.start), most)
					}
				}
			})
		}
	})

	It("covers Backups whose location was removed", func() {
		t := GinkgoTB()
		s := newStage(t)
		all := s.backups(6)
		s.atAll(month, all)
		s.expectDoomed()
		if len(s.told) == 0 || !strings.HasPrefix(s.told[0], "Warning MassExpiry Expire: 6 of 6") {
			t.Errorf("the events are %q", s.told)
		}
		failed := s.backup("failed", func(b *v1alpha1.Backup) {
			b.Status.Phase, b.Status.StorageLocation = v1alpha1.RunPhaseFailedValidation, ""
		})
		s.at(month, failed)
		s.expectDoomed("failed")
	})

	It("destroys no Backup that began by a clock a year behind", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.backup("nightly", func(b *v1alpha1.Backup) {
			b.Status.StartTimestamp, b.Status.CompletionTimestamp = &metav1.Time{Time: s.start.Add(-year)}, &metav1.Time{Time: s.start.Add(-year)}
		})
		s.keeps(0, b)
		s.keeps(month-time.Hour, b)
		s.at(month+time.Minute, b)
		s.expectDoomed("nightly")
	})

	It("does not count a DeletionRun of the future", func() {
		t := GinkgoTB()
		s := newStage(t)
		s.location()
		b := s.backup("nightly")
		s.at(month, b)
		d := s.deletion()
		s.now = s.start.Add(year)
		s.ends(d, v1alpha1.RunPhaseFailed)
		s.at(month+time.Hour, b) // the old one makes way
		s.at(month+time.Hour, b)
		if again := s.deletion(); again.UID == d.UID {
			t.Errorf("DeletionRun %s from the future still exists, and nothing expires", d.Name)
		}
	})
})

// gone finishes the existing DeletionRuns, and removes their Backups.
func (s *stage) gone(all []*v1alpha1.Backup) (left []*v1alpha1.Backup) {
	s.t.Helper()
	went := map[string]bool{}
	for _, d := range s.deletions() {
		went[d.Spec.BackupName] = true
		if d.Status.CompletionTimestamp == nil {
			d.Status.StorageLocation = "main"
			s.ends(&d, v1alpha1.RunPhaseCompleted)
		}
	}
	for _, b := range all {
		if !went[b.Name] {
			left = append(left, b)
		} else if suite.GetIfExists(s.Env, b) {
			s.Delete(b)
		}
	}
	return left
}

// lasting returns an edit that gives a Backup a ttl.
func lasting(ttl time.Duration) func(*v1alpha1.Backup) {
	return func(b *v1alpha1.Backup) { b.Spec.TTL = &metav1.Duration{Duration: ttl} }
}
