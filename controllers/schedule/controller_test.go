// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"maps"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("A Schedule", Label("schedule"), func() {
	It("creates a Backup when it is due", func() {
		t := GinkgoTB()
		s := newStage(t)
		n := s.nightly()
		if result := s.at("1 00:30", n); result.RequeueAfter != time.Hour {
			t.Errorf("two and a half hours before its time it is requeued after %v", result.RequeueAfter)
		}
		if result := s.at("1 02:59", n); result.RequeueAfter != time.Minute {
			t.Errorf("a minute before its time it is requeued after %v", result.RequeueAfter)
		}
		s.expectMade()
		s.expectStatus(n, expect{Phase: "Enabled", Next: "1 03:00", Ready: "Scheduled"})

		s.at("1 03:00", n)
		s.expectMade("1 03:00")
		name := s.backupName("1 03:00")
		s.expectStatus(n, expect{Phase: "Enabled", Last: "1 03:00", Backup: name, Next: "2 03:00", Active: 1, Ready: "Scheduled"})
		s.expectTold("Normal BackupCreated Create: Created Backup " + name)

		version := n.ResourceVersion
		s.at("1 03:01", n)
		if n.ResourceVersion != version {
			t.Error("a reconcile without a change wrote the Schedule")
		}
		s.end(s.backup("1 03:00"), "Completed", "1 04:00")
		s.at("1 04:00", n)
		s.expectMade("1 03:00")
		s.expectStatus(n, expect{Phase: "Enabled", Last: "1 03:00", Backup: name, Success: "1 04:00", Next: "2 03:00", Ready: "Scheduled"})
		s.expectTold()

		s.Delete(s.backup("1 03:00"))
		s.at("1 04:01", n)
		s.expectMade()
		s.expectStatus(n, expect{Phase: "Enabled", Last: "1 03:00", Backup: name, Success: "1 04:00", Next: "2 03:00", Ready: "Scheduled"})
	})

	It("creates the Backup of its template", func() {
		t := GinkgoTB()
		s := newStage(t)
		n := s.nightly(func(spec *v1alpha1.ScheduleSpec) {
			spec.Template.Metadata = v1alpha1.TemplateMetadata{
				Labels: map[string]v1alpha1.LabelValue{
					"team": "shop", "app.kubernetes.io/instance": "backups", "argocd.argoproj.io/instance": "backups",
					"kustomize.toolkit.fluxcd.io/name": "backups", v1alpha1.LabelScheduleName: "another",
				},
				Annotations: map[string]v1alpha1.ParameterValue{
					"note": "kept", "argocd.argoproj.io/tracking-id": "backups:grapnel.dev/Backup:x", v1alpha1.AnnotationScheduledTime: "never",
				},
			}
			spec.Template.Spec.TTL = &metav1.Duration{Duration: 720 * time.Hour}
			spec.Template.Spec.Metadata = &v1alpha1.BackupMetadata{Labels: map[string]v1alpha1.LabelValue{"stored": "yes", "kapp.k14s.io/app": "1"}}
		})
		suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) {
			n.Labels["argocd.argoproj.io/instance"], n.Labels["tier"] = "backups", "gold"
		})
		s.at("1 03:00", n)
		b := s.backup("1 03:00")
		if want := map[string]string{"team": "shop", v1alpha1.LabelScheduleName: "nightly"}; !maps.Equal(b.Labels, want) {
			t.Errorf("labels are %v, want %v", b.Labels, want)
		}
		want := map[string]string{"note": "kept", v1alpha1.AnnotationScheduledTime: s.time("1 03:00").Format(time.RFC3339)}
		if !maps.Equal(b.Annotations, want) {
			t.Errorf("annotations are %v, want %v", b.Annotations, want)
		}
		wantSpec := n.Spec.Template.Spec.DeepCopy()
		wantSpec.Metadata.Labels = map[string]v1alpha1.LabelValue{"stored": "yes"}
		if diff := cmp.Diff(*wantSpec, b.Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
		if len(b.OwnerReferences) > 0 {
			t.Errorf("it would be deleted with its Schedule: %v", b.OwnerReferences)
		}
	})

	Context("creates the Backup that was missed last", func() {
		deadline := func(d time.Duration) func(*v1alpha1.ScheduleSpec) {
			return func(spec *v1alpha1.ScheduleSpec) { spec.StartingDeadline = &metav1.Duration{Duration: d} }
		}
		for name, tc := range suite.SortedByName(map[string]struct {
			edit func(*v1alpha1.ScheduleSpec)
			at   string
			made []string
			// skipped and reason are those of the status.
			skipped, reason string
			told            []string
		}{
			"one time missed": {at: "1 12:00", made: []string{"1 03:00"}, told: []string{"Normal BackupCreated"}},
			"several times missed": {
				at: "5 12:00", made: []string{"5 03:00"}, told: []string{"Normal BackupCreated"},
			},
			"too many times missed": {
				edit: func(spec *v1alpha1.ScheduleSpec) { spec.Schedule = "0 * * * *" }, at: "9 12:30", made: []string{"9 12:00"},
				told: []string{"Normal BackupCreated", "Warning Skipped TooManyMissed: more than 100 runs"},
			},
			"within the deadline": {
				edit: deadline(time.Hour), at: "5 03:59", made: []string{"5 03:00"}, told: []string{"Normal BackupCreated"},
			},
			"after the deadline": {
				edit: deadline(time.Hour), at: "5 04:01", skipped: "5 03:00", reason: "MissedDeadline",
				told: []string{"Warning Skipped MissedDeadline: nothing ran at …the starting deadline is 1h0m0s"},
			},
			"in a time zone": {
				edit: func(spec *v1alpha1.ScheduleSpec) { spec.TimeZone = "Asia/Tokyo" }, // 9 hours ahead, all year
				at:   "1 18:00", made: []string{"1 18:00"}, told: []string{"Normal BackupCreated"},
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				var edits []func(*v1alpha1.ScheduleSpec)
				if tc.edit != nil {
					edits = append(edits, tc.edit)
				}
				n := s.nightly(edits...)
				for range 2 { // the second reconcile changes nothing
					s.at(tc.at, n)
					s.expectMade(tc.made...)
					if got := s.shown(n.Status.LastSkippedTime); got != tc.skipped || n.Status.LastSkippedReason != tc.reason {
						t.Errorf("skipped %s because of %s, want %s because of %s", got, n.Status.LastSkippedReason, tc.skipped, tc.reason)
					}
				}
				s.expectTold(tc.told...)
			})
		}
	})

	Context("makes up for a run from before its first reconcile", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			skip bool
			made int
			told []string
		}{
			"the operator was unavailable":                  {made: 1, told: []string{"Normal BackupCreated"}},
			"the operator was unavailable, skipImmediately": {skip: true, told: []string{"Normal Skipped SkipImmediately: …skipImmediately is true"}},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				n := s.fresh("@every 1h", func(spec *v1alpha1.ScheduleSpec) { spec.SkipImmediately = tc.skip })
				s.now = n.CreationTimestamp.Add(90 * time.Minute)
				for range 2 {
					if _, err := s.pass(n); err != nil {
						t.Fatal(err)
					}
					if made := s.backups(); len(made) != tc.made {
						t.Errorf("there are %d Backups, want %d", len(made), tc.made)
					}
				}
				s.expectTold(tc.told...)
			})
		}
	})

	Context("follows its policy while an earlier Backup is running", func() {
		policy := func(p v1alpha1.ConcurrencyPolicy) func(*v1alpha1.ScheduleSpec) {
			return func(spec *v1alpha1.ScheduleSpec) { spec.ConcurrencyPolicy = p }
		}
		It("Allow", func() {
			t := GinkgoTB()
			s := newStage(t)
			n := s.nightly(policy(v1alpha1.ConcurrencyPolicyAllow))
			s.at("1 03:00", n)
			s.at("2 03:00", n)
			s.expectMade("1 03:00", "2 03:00")
			s.expectStatus(n, expect{
				Phase: "Enabled", Last: "2 03:00", Backup: s.backupName("2 03:00"), Next: "3 03:00", Active: 2, Ready: "Scheduled",
			})
		})
		It("Forbid", func() {
			t := GinkgoTB()
			s := newStage(t)
			n := s.nightly(policy(""))
			s.at("1 03:00", n)
			s.expectTold("Normal BackupCreated")
			waiting := expect{
				Phase: "Enabled", Last: "1 03:00", Backup: s.backupName("1 03:00"), Next: "3 03:00", Active: 1, Ready: "Scheduled",
				Skipped: "2 03:00", Reason: "ConcurrencyForbid",
			}
			for _, at := range []string{"2 03:00", "2 03:05"} {
				s.at(at, n)
				s.expectStatus(n, waiting)
			}
			s.expectTold("Normal Skipped ConcurrencyForbid: …waits until " + s.backupName("1 03:00"))
			s.end(s.backup("1 03:00"), "PartiallyFailed", "2 07:00")
			s.at("2 07:00", n)
			s.expectMade("1 03:00", "2 03:00")
			s.expectTold("Normal BackupCreated")
			if n.Status.LastSuccessfulTime != nil {
				t.Error("a PartiallyFailed Backup counts as a success")
			}
		})
		It("Replace", func() {
			t := GinkgoTB()
			s := newStage(t)
			n := s.nightly(policy(v1alpha1.ConcurrencyPolicyReplace))
			s.at("1 03:00", n)
			s.expectTold("Normal BackupCreated")
			s.at("2 03:00", n)
			s.at("2 03:01", n)
			s.expectMade("1 03:00", "2 03:00")
			s.expectTold("Normal Replaced Cancel: Canceled Backup "+s.backupName("1 03:00"), "Normal BackupCreated")
			for text, want := range map[string]v1alpha1.DesiredState{"1 03:00": "Cancel", "2 03:00": "Run"} {
				if got := s.backup(text).Spec.DesiredState; got != want {
					t.Errorf("the Backup of %s is to %s, want %s", text, got, want)
				}
			}
		})
	})

	Context("creates nothing while it is suspended", func() {
		suspend := func(n *v1alpha1.Schedule) { n.Spec.Suspend = true }
		for name, tc := range suite.SortedByName(map[string]struct {
			skip bool
			made []string
			told string
		}{
			"and then made up for": {made: []string{"2 03:00"}, told: "Normal BackupCreated"},
			"and then skipped":     {skip: true, told: "Normal Skipped SkipImmediately"},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				n := s.nightly(func(spec *v1alpha1.ScheduleSpec) { spec.SkipImmediately = tc.skip })
				s.at("1 01:00", n)
				suite.UpdateWithRetry(s.Env, n, suspend)
				s.at("1 02:00", n)
				s.expectStatus(n, expect{Phase: "Suspended", Ready: "Suspended"})
				for _, at := range []string{"1 03:00", "1 03:30", "2 03:00"} {
					s.at(at, n)
				}
				s.expectMade()
				s.expectStatus(n, expect{Phase: "Suspended", Skipped: "2 03:00", Reason: "Suspended", Ready: "Suspended"})
				s.expectTold("Normal Skipped Suspended", "Normal Skipped Suspended: …spec.suspend")

				suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) { n.Spec.Suspend = false })
				s.at("2 12:00", n)
				s.at("2 12:01", n)
				s.expectMade(tc.made...)
				s.expectTold(tc.told)
				s.at("3 03:00", n)
				s.expectMade(append(tc.made, map[bool][]string{true: {"3 03:00"}}[tc.skip]...)...)
			})
		}
	})

	Context("skips times of the new expression from before the change", func() {
		for name, change := range suite.SortedByName(map[string]func(*v1alpha1.Schedule){
			"expression": func(n *v1alpha1.Schedule) { n.Spec.Schedule = "30 11 * * *" },
			"time zone":  func(n *v1alpha1.Schedule) { n.Spec.Schedule, n.Spec.TimeZone = "30 20 * * *", "Asia/Tokyo" },
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				n := s.nightly()
				s.at("1 03:00", n)
				s.end(s.backup("1 03:00"), "Completed", "1 04:00")
				suite.UpdateWithRetry(s.Env, n, change)
				s.at("1 12:00", n)
				s.at("1 12:01", n)
				s.expectMade("1 03:00")
				if next := s.shown(n.Status.NextScheduleTime); next != "2 11:30" {
					t.Errorf("it is next due at %s", next)
				}
				s.at("2 11:30", n)
				s.expectMade("1 03:00", "2 11:30")
			})
		}
	})

	It("reports its runs as metrics", func() {
		t := GinkgoTB()
		s := newStage(t)
		n := s.nightly()
		s.at("1 03:00", n)
		s.at("2 03:00", n)
		s.at("2 03:01", n)
		if diff := cmp.Diff(map[string]float64{
			"grapnel_schedule_backups_created_total nightly":           1,
			"grapnel_schedule_skipped_total ConcurrencyForbid nightly": 1,
		}, s.counted()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		s.Delete(n)
		if _, err := s.pass(n); err != nil {
			t.Fatal(err)
		}
		if counted := s.counted(); len(counted) > 0 {
			t.Errorf("a deleted Schedule has the series %v", counted)
		}
		s.expectMade("1 03:00")
	})
})
