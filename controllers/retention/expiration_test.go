// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The expiration of Backups", Label("schedule"), func() {
	It("destroys a Backup when it expires, not before", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.backup("nightly")
		for _, step := range []struct{ at, again time.Duration }{
			{0, time.Hour},
			{month - 90*time.Minute, time.Hour},
			{month - 30*time.Minute, 30 * time.Minute},
			{month - time.Second, time.Second},
			{month - time.Millisecond, time.Millisecond},
		} {
			if result := s.keeps(step.at, b); result.RequeueAfter != step.again {
				t.Errorf("at %v it is requeued after %v, want %v", step.at, result.RequeueAfter, step.again)
			}
			if !b.Status.Expiration.Equal(&metav1.Time{Time: s.start.Add(month)}) {
				t.Errorf("it expires at %v", b.Status.Expiration)
			}
		}
		s.expectTold()

		result := s.at(month, b)
		s.expectDoomed("nightly")
		s.expectSpec(s.deletion(), b, v1alpha1.DeletionCauseExpired)
		s.expectTold("Normal Expired Expire: …DeletionRun " + s.deletion().Name + " destroys it")
		if result.RequeueAfter > time.Hour || result.RequeueAfter == 0 {
			t.Errorf("it is requeued after %v", result.RequeueAfter)
		}
		uid := s.deletion().UID
		s.at(month+time.Minute, b)
		if err := s.r.createDeletionRunForExpired(t.Context(), b); err != nil { // as with a cache that does not contain the DeletionRun
			t.Fatal(err)
		}
		if s.deletion().UID != uid {
			t.Error("another DeletionRun exists")
		}
		s.expectTold()
	})

	It("observes changes of finished Backups", func() {
		t := GinkgoTB()
		s := newStage(t)
		for name, b := range map[string]*v1alpha1.Backup{
			"another ttl":             s.backup("nightly"),
			"an entry of the catalog": s.backup("imported", func(b *v1alpha1.Backup) { b.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: "main"} }),
		} {
			s.at(0, b)
			suite.UpdateWithRetry(s.Env, b, func(b *v1alpha1.Backup) { b.Spec.TTL = &metav1.Duration{Duration: 2 * month} })
			s.at(time.Hour, b)
			ready := conditions.Get(b, v1alpha1.ConditionReady)
			if b.Generation != 2 || b.Status.ObservedGeneration != 2 || ready.ObservedGeneration != 2 || ready.Status != metav1.ConditionTrue {
				t.Errorf("%s: the status is about generation %d, with %+v", name, b.Status.ObservedGeneration, ready)
			}
		}
	})

	It("withdraws a DeletionRun when the clock is set back", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.backup("nightly")
		s.keeps(time.Hour, b)
		s.keeps(-1000*time.Hour, b)
		s.keeps(2*time.Hour, b)
		s.at(month, b)
		s.expectDoomed("nightly")
		s.keeps(3*time.Hour, b)
		s.at(2*month, b)
		s.expectDoomed("nightly")

		begun := s.deletion()
		s.begins(begun)
		s.at(4*time.Hour, b)
		if s.deletion().UID != begun.UID {
			t.Error("another DeletionRun exists")
		}
	})

	It("leaves a DeletionRun that has begun", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.backup("nightly")
		s.at(month, b)
		cached := *s.deletion()
		s.begins(s.deletion())
		s.r.Client = &behind{Client: s.Client, deletion: &cached}
		s.at(time.Hour, b)
		s.expectDoomed("nightly")
	})

	Context("follows a changed ttl", func() {
		of := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
		for name, tc := range suite.SortedByName(map[string]struct {
			before, after *metav1.Duration
			// at is when it is changed, and then reconciled.
			at     time.Duration
			doomed bool
		}{
			"longer, in time":         {of(month), of(2 * month), month - time.Hour, false},
			"longer, too late":        {of(month), of(2 * month), month + time.Minute, false},
			"shorter, to the past":    {of(month), of(time.Hour), 2 * time.Hour, true},
			"shorter, to the future":  {of(month), of(time.Hour), time.Minute, false},
			"removed, in time":        {of(month), nil, month - time.Hour, false},
			"removed, too late":       {of(month), nil, month + time.Minute, false},
			"set late, to the past":   {nil, of(time.Hour), 2 * time.Hour, true},
			"set late, to the future": {nil, of(month), 2 * time.Hour, false},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				b := s.backup("nightly", func(b *v1alpha1.Backup) { b.Spec.TTL = tc.before })
				s.at(0, b)
				s.at(tc.at, b)
				suite.UpdateWithRetry(s.Env, b, func(b *v1alpha1.Backup) { b.Spec.TTL = tc.after })
				s.at(tc.at, b)
				var want []string
				if tc.doomed {
					want = []string{"nightly"}
				}
				s.expectDoomed(want...)
				switch {
				case tc.after == nil && b.Status.Expiration != nil:
					t.Errorf("it expires at %v", b.Status.Expiration)
				case tc.after != nil && !b.Status.Expiration.Equal(&metav1.Time{Time: s.start.Add(tc.after.Duration)}):
					t.Errorf("it expires at %v, want %v after %v", b.Status.Expiration, tc.after.Duration, s.start)
				}
			})
		}
	})

	It("follows the default that was recorded when the Backup began, as long as it has no ttl", func() {
		t := GinkgoTB()
		s := newStage(t)
		const outcome = "5 objects in the archive"
		b := s.backup("nightly", without, func(b *v1alpha1.Backup) {
			b.Status.DefaultTTL = &metav1.Duration{Duration: month}
			b.Status.Expiration = &metav1.Time{Time: s.start.Add(month)}
			b.Status.Message = lifecycle.AppendExpirationNote(outcome, b)
		})
		expires := func(after time.Duration) string { return s.start.Add(after).Format(time.RFC3339) }
		for _, step := range []struct {
			ttl     *metav1.Duration
			want    time.Duration
			message string
		}{
			{nil, month, outcome + "; expires at " + expires(month) + " by default: spec.ttl was not set"},
			{&metav1.Duration{Duration: 2 * month}, 2 * month, outcome},
			{&metav1.Duration{}, 0, outcome},
			{nil, month, outcome + "; expires at " + expires(month) + " by default: spec.ttl was not set"},
		} {
			suite.UpdateWithRetry(s.Env, b, func(b *v1alpha1.Backup) { b.Spec.TTL = step.ttl })
			s.keeps(time.Hour, b)
			if b.Status.Message != step.message {
				t.Errorf("with the ttl %v, the message is %q, want %q", step.ttl, b.Status.Message, step.message)
			}
			if at := b.Status.Expiration; (step.want == 0) != (at == nil) || at != nil && !at.Equal(&metav1.Time{Time: s.start.Add(step.want)}) {
				t.Errorf("with the ttl %v, it expires at %v, want after %v", step.ttl, at, step.want)
			}
		}
		s.keeps(month-time.Second, b)
		s.at(month, b)
		s.expectDoomed("nightly")
	})

	Context("keeps Backups without ttl", func() {
		for name, edit := range suite.SortedByName(map[string]func(*v1alpha1.Backup){
			"no ttl":        without,
			"a ttl of zero": func(b *v1alpha1.Backup) { b.Spec.TTL = &metav1.Duration{} },
			"a ttl of zero, and a default": func(b *v1alpha1.Backup) {
				b.Spec.TTL, b.Status.DefaultTTL = &metav1.Duration{}, &metav1.Duration{Duration: time.Hour}
			},
			"imported": func(b *v1alpha1.Backup) {
				b.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: "main", BackupUID: "v-1"}
			},
			"imported and expired there": func(b *v1alpha1.Backup) {
				b.Spec.ImportedFrom, b.Spec.TTL = &v1alpha1.ImportSource{StorageLocation: "main", BackupUID: "v-1"}, nil
				b.Status.Expiration = b.Status.StartTimestamp
			},
			"running": func(b *v1alpha1.Backup) {
				b.Status.Phase, b.Status.CompletionTimestamp = v1alpha1.RunPhaseInProgress, nil
				conditions.SetSummary(b, conditions.InProgress, "Archiving", "")
			},
			"with pending actions": func(b *v1alpha1.Backup) {
				conditions.SetSummary(b, conditions.InProgress, "RunningPostBackupActions", "")
			},
			"owing clean-up": func(b *v1alpha1.Backup) {
				conditions.Set(b, v1alpha1.ConditionCleanupOwed, metav1.ConditionTrue, v1alpha1.ReasonCleanupOverdue, "")
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				b := s.backup("nightly", edit)
				before := b.Status.Expiration
				for _, at := range []time.Duration{0, month, 100 * month} {
					s.keeps(at, b)
				}
				if !b.Status.Expiration.Equal(before) {
					t.Errorf("it expires at %v, was %v", b.Status.Expiration, before)
				}
			})
		}
	})

	It("destroys failed Backups, too", func() {
		t := GinkgoTB()
		s := newStage(t)
		for name, phase := range map[string]v1alpha1.RunPhase{"a": v1alpha1.RunPhaseFailed, "b": v1alpha1.RunPhaseCancelled, "c": v1alpha1.RunPhasePartiallyFailed} {
			s.at(month, s.backup(name, func(b *v1alpha1.Backup) { b.Status.Phase = phase }))
		}
		s.expectDoomed("a", "b", "c")
	})

	Context("waits for Restores", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			restore v1alpha1.Restore
			kept    bool
		}{
			"by name":            {v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{BackupName: "nightly"}}, true},
			"by Schedule":        {v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{ScheduleName: "nights"}}, true},
			"by what it found":   {restoring("nights", "nightly", "main"), true},
			"of another":         {v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{BackupName: "hourly"}}, false},
			"another Schedule's": {v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{ScheduleName: "hours"}}, false},
			"it found another":   {restoring("nights", "hourly", "main"), false},
			"found elsewhere":    {restoring("nights", "nightly", "other"), false},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				b := s.backup("nightly", func(b *v1alpha1.Backup) { b.Labels = map[string]string{v1alpha1.LabelScheduleName: "nights"} })
				s.keeps(0, b)
				status := tc.restore.Status
				restore := &tc.restore
				restore.Name = "back"
				suite.Create(s.Env, restore)
				restore.Status = status
				s.writeStatus(restore)
				if !tc.kept {
					s.at(month, b)
					s.expectDoomed("nightly")
					return
				}
				s.keeps(month, b)
				s.keeps(2*month, b)
				restore.Status.Phase, restore.Status.CompletionTimestamp = v1alpha1.RunPhaseFailed, &metav1.Time{Time: s.now}
				s.writeStatus(restore)
				s.at(2*month, b)
				s.expectDoomed("nightly")
			})
		}
	})

	It("tries again when a DeletionRun had no effect", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.backup("nightly")
		s.at(month, b)
		first := s.deletion()
		s.ends(first, v1alpha1.RunPhaseFailedValidation)
		s.at(month+59*time.Minute, b)
		if s.deletion().UID != first.UID {
			t.Error("another one exists immediately, which fails as well")
		}
		s.at(month+time.Hour, b) // makes way
		s.at(month+time.Hour, b)
		second := s.deletion()
		if second.UID == first.UID {
			t.Fatal("no other one exists")
		}
		s.Delete(second)
		s.at(month+time.Hour, b)
		if s.deletion().UID == second.UID {
			t.Error("no third one exists")
		}
		done := s.deletion()
		s.ends(done, v1alpha1.RunPhaseCompleted)
		s.at(month+9*time.Hour, b)
		if s.deletion().UID != done.UID {
			t.Error("another one exists after the Backup was destroyed")
		}
	})

	It("retries failed requests", func() {
		t := GinkgoTB()
		down := errors.New("the API server is down")
		s := newStage(t)
		b := s.backup("nightly")
		s.at(0, b)
		s.now = s.start.Add(month)
		s.r.Client = &broken{Client: s.Client, create: down}
		if _, err := s.r.Reconcile(t.Context(), requestOf(b)); !errors.Is(err, down) {
			t.Errorf("the error is %v", err)
		}
		s.r.Client = &broken{Client: s.Client, create: ending()}
		s.at(month, b)
		s.expectTold()
		s.r.Client = s.Client
		s.at(month, b)
		s.expectDoomed("nightly")
	})
})

// restoring returns a Restore of a Schedule that has resolved its backup.
func restoring(schedule, stored, location string) v1alpha1.Restore {
	return v1alpha1.Restore{
		Spec:   v1alpha1.RestoreSpec{ScheduleName: schedule},
		Status: v1alpha1.RestoreStatus{BackupName: stored, StorageLocation: location, Phase: v1alpha1.RunPhaseInProgress},
	}
}
