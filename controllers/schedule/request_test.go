// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"errors"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// request requests a run at a time.
func (s *stage) request(n *v1alpha1.Schedule, text string) {
	s.t.Helper()
	s.annotate(n, s.time(text).Format(time.RFC3339))
}

func (s *stage) annotate(n *v1alpha1.Schedule, value string) {
	s.t.Helper()
	suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[v1alpha1.AnnotationRunRequestedAt] = value
	})
}

// expectHandled expects that the last request is recorded, with its Backup, or else with a message that has the words.
func (s *stage) expectHandled(n *v1alpha1.Schedule, backup, says string) {
	s.t.Helper()
	st := n.Status
	if st.LastHandledRunRequest != n.Annotations[v1alpha1.AnnotationRunRequestedAt] {
		s.t.Errorf("request %q is recorded, want %q", st.LastHandledRunRequest, n.Annotations[v1alpha1.AnnotationRunRequestedAt])
	}
	if st.LastRequestedBackup != backup || (st.LastRunRequestMessage == "") != (says == "") || !strings.Contains(st.LastRunRequestMessage, says) {
		s.t.Errorf("Backup %q and message %q are recorded, want %q and %q", st.LastRequestedBackup, st.LastRunRequestMessage, backup, says)
	}
}

var _ = Describe("A Schedule with a requested run", Label("schedule"), func() {
	policy := func(p v1alpha1.ConcurrencyPolicy) func(*v1alpha1.ScheduleSpec) {
		return func(spec *v1alpha1.ScheduleSpec) { spec.ConcurrencyPolicy = p }
	}

	It("creates one Backup, and keeps its rhythm", func() {
		t := GinkgoTB()
		s := newStage(t)
		n := s.nightly(func(spec *v1alpha1.ScheduleSpec) {
			spec.Template.Metadata.Labels = map[string]v1alpha1.LabelValue{"team": "shop"}
			spec.Template.Metadata.Annotations = map[string]v1alpha1.ParameterValue{v1alpha1.AnnotationRunRequestedAt: "of the template"}
		})
		s.at("1 03:00", n)
		s.end(s.backup("1 03:00"), "Completed", "1 04:00")
		s.request(n, "1 12:00")
		s.expectTold("Normal BackupCreated Create: Created Backup " + s.backupName("1 03:00") + " for ")
		name := s.backupName("1 12:00")
		want := expect{Phase: "Enabled", Last: "1 03:00", Backup: name, Success: "1 04:00", Next: "2 03:00", Active: 1, Ready: "Scheduled"}
		for _, at := range []string{"1 12:01", "1 12:02"} { // the second reconcile changes nothing
			s.at(at, n)
			s.expectMade("1 03:00", "1 12:01")
			s.expectStatus(n, want)
			s.expectHandled(n, name, "")
		}
		s.expectTold("Normal BackupCreated Create: Created Backup " + name + ", requested manually")
		b := s.backup("1 12:00")
		if diff := cmp.Diff(map[string]string{"team": "shop", v1alpha1.LabelScheduleName: "nightly"}, b.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{
			v1alpha1.AnnotationScheduledTime:  s.time("1 12:01").Format(time.RFC3339),
			v1alpha1.AnnotationRunRequestedAt: s.time("1 12:00").Format(time.RFC3339),
		}, b.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if got := s.backup("1 03:00").Annotations; got[v1alpha1.AnnotationRunRequestedAt] != "" {
			t.Errorf("the scheduled Backup has the annotations %v", got)
		}

		s.end(b, "Completed", "1 13:00")
		s.request(n, "1 14:00")
		s.at("1 14:00", n)
		s.expectHandled(n, s.backupName("1 14:00"), "")
		s.at("1 14:00", n)
		s.expectMade("1 03:00", "1 12:01", "1 14:00")
		if got := s.counted()["grapnel_schedule_backups_created_total nightly"]; got != 3 {
			t.Errorf("%v Backups are counted", got)
		}
		s.end(s.backup("1 14:00"), "Completed", "1 15:00")
		s.at("2 03:00", n)
		s.expectMade("1 03:00", "1 12:01", "1 14:00", "2 03:00")
		s.expectStatus(n, expect{
			Phase: "Enabled", Last: "2 03:00", Backup: s.backupName("2 03:00"), Success: "1 15:00", Next: "3 03:00", Active: 1, Ready: "Scheduled",
		})
	})

	It("keeps the rhythm of an interval", func() {
		t := GinkgoTB()
		s := newStage(t)
		n := s.nightly(func(spec *v1alpha1.ScheduleSpec) { spec.Schedule = "@every 10h" })
		s.request(n, "1 01:00")
		s.at("1 01:00", n)
		s.expectStatus(n, expect{Phase: "Enabled", Backup: s.backupName("1 01:00"), Next: "1 10:00", Active: 1, Ready: "Scheduled"})
		s.end(s.backup("1 01:00"), "Completed", "1 02:00")
		s.at("1 10:00", n)
		s.expectMade("1 01:00", "1 10:00")
		if next := s.shown(n.Status.NextScheduleTime); next != "1 20:00" {
			t.Errorf("it is next due at %s", next)
		}
	})

	It("counts for the limits", func() {
		s := newStage(GinkgoTB())
		n := s.nightly(func(spec *v1alpha1.ScheduleSpec) { spec.KeepSucceeded = new(int32(1)) })
		s.at("1 03:00", n)
		s.end(s.backup("1 03:00"), "Completed", "1 04:00")
		s.request(n, "1 12:00")
		s.at("1 12:00", n)
		s.expectDoomed()
		s.end(s.backup("1 12:00"), "Completed", "1 13:00")
		s.at("1 13:00", n)
		s.expectDoomed("1 03:00")
	})

	It("creates the Backup of a suspended Schedule", func() {
		s := newStage(GinkgoTB())
		n := s.nightly(func(spec *v1alpha1.ScheduleSpec) { spec.Suspend = true })
		s.request(n, "1 12:00")
		s.at("1 12:00", n)
		s.expectMade("1 12:00")
		s.expectHandled(n, s.backupName("1 12:00"), "")
		s.expectStatus(n, expect{
			Phase: "Suspended", Backup: s.backupName("1 12:00"), Skipped: "1 03:00", Reason: "Suspended", Active: 1, Ready: "Suspended",
		})
	})

	Context("follows its policy while an earlier Backup is running", func() {
		It("Allow", func() {
			s := newStage(GinkgoTB())
			n := s.nightly(policy(v1alpha1.ConcurrencyPolicyAllow))
			s.at("1 03:00", n)
			s.request(n, "1 03:30")
			s.at("1 03:30", n)
			s.expectMade("1 03:00", "1 03:30")
		})
		It("Forbid", func() {
			t := GinkgoTB()
			s := newStage(t)
			n := s.nightly(policy(""))
			s.at("1 03:00", n)
			s.request(n, "1 03:30")
			for _, at := range []string{"1 03:30", "1 03:31"} {
				s.at(at, n)
				s.expectHandled(n, "", s.backupName("1 03:00")+" has not ended")
			}
			s.expectTold("Normal BackupCreated", "Normal RunRequestIgnored ConcurrencyForbid: …"+s.backupName("1 03:00"))
			s.end(s.backup("1 03:00"), "Completed", "1 04:00")
			s.at("1 04:00", n)
			s.expectMade("1 03:00") // the request does not wait
			s.expectStatus(n, expect{
				Phase: "Enabled", Last: "1 03:00", Backup: s.backupName("1 03:00"), Success: "1 04:00", Next: "2 03:00", Ready: "Scheduled",
			})
		})
		It("Forbid, and a requested one is running", func() {
			s := newStage(GinkgoTB())
			n := s.nightly(policy(""))
			s.request(n, "1 02:30")
			s.at("1 02:30", n)
			s.at("1 03:00", n)
			s.expectMade("1 02:30")
			s.end(s.backup("1 02:30"), "Completed", "1 03:10")
			s.at("1 03:10", n)
			s.expectMade("1 02:30", "1 03:00")
			s.expectTold("Normal BackupCreated", "Normal Skipped ConcurrencyForbid: …"+s.backupName("1 02:30"), "Normal BackupCreated")
		})
		It("Replace", func() {
			t := GinkgoTB()
			s := newStage(t)
			n := s.nightly(policy(v1alpha1.ConcurrencyPolicyReplace))
			s.at("1 03:00", n)
			s.request(n, "1 03:30")
			s.at("1 03:30", n)
			s.at("1 03:31", n)
			s.expectMade("1 03:00", "1 03:30")
			for text, want := range map[string]v1alpha1.DesiredState{"1 03:00": "Cancel", "1 03:30": "Run"} {
				if got := s.backup(text).Spec.DesiredState; got != want {
					t.Errorf("the Backup of %s is to %s, want %s", text, got, want)
				}
			}
			s.expectTold("Normal BackupCreated", "Normal Replaced Cancel", "Normal BackupCreated")
		})
	})

	It("creates the Backup that is due first", func() {
		s := newStage(GinkgoTB())
		n := s.nightly(policy(v1alpha1.ConcurrencyPolicyAllow))
		s.request(n, "1 02:59")
		s.at("1 03:00", n)
		s.expectMade("1 03:00")
		if n.Status.LastHandledRunRequest != "" {
			s.t.Errorf("request %s is handled", n.Status.LastHandledRunRequest)
		}
		s.at("1 03:00", n)
		s.expectHandled(n, s.backupName("1 02:59"), "")
		s.at("1 03:00", n)
		if made := s.backups(); len(made) != 2 {
			s.t.Errorf("there are %d Backups", len(made))
		}
	})

	It("runs once for a request and a time of the schedule in the same second", func() {
		s := newStage(GinkgoTB())
		n := s.nightly()
		s.request(n, "1 03:00")
		s.at("1 03:00", n)
		s.at("1 03:01", n)
		s.expectMade("1 03:00")
		s.expectHandled(n, s.backupName("1 03:00"), "was created for the same second")
		s.expectTold("Normal BackupCreated", "Normal RunRequestIgnored RunExists")
	})

	Context("ignores", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			value      func(*stage, *v1alpha1.Schedule) string
			told, says string
		}{
			"what is no time": {
				func(*stage, *v1alpha1.Schedule) string { return "now" },
				"Warning RunRequestIgnored InvalidTime: No Backup was created on request: ", `"now" is not a time in RFC 3339 format`,
			},
			"a request from before a restore": {
				func(_ *stage, n *v1alpha1.Schedule) string {
					return n.CreationTimestamp.Add(-time.Second).Format(time.RFC3339)
				},
				"Normal RunRequestIgnored Outdated: ", "older than the Schedule",
			},
			"the far future": {
				func(s *stage, _ *v1alpha1.Schedule) string { return s.time("1 12:00").Format(time.RFC3339) },
				"Warning RunRequestIgnored FutureTime: ", "check the clocks",
			},
		}) {
			It(name, func() {
				s := newStage(GinkgoTB())
				n := s.nightly()
				s.annotate(n, tc.value(s, n))
				for range 2 {
					s.at("1 02:00", n)
					s.expectMade()
					s.expectHandled(n, "", tc.says)
				}
				s.expectTold(tc.told + "…" + tc.says)
			})
		}
		It("what is too long", func() {
			s := newStage(GinkgoTB())
			n := s.nightly()
			s.annotate(n, strings.Repeat("ä", 1000))
			for range 2 {
				s.at("1 02:00", n)
				if got := n.Status.LastHandledRunRequest; got != strings.Repeat("ä", 30)+"…" {
					s.t.Errorf("%q is recorded", got)
				}
			}
			s.expectTold("Warning RunRequestIgnored InvalidTime")
		})
		It("a request whose Backup exists and is of others", func() {
			s := newStage(GinkgoTB())
			n := s.nightly()
			s.made("1 02:00", func(b *v1alpha1.Backup) { b.Labels = nil })
			s.request(n, "1 02:00")
			for range 2 {
				s.at("1 02:00", n)
				s.expectHandled(n, "", "Backup "+s.backupName("1 02:00")+" that this Schedule did not create")
			}
			s.expectTold("Warning RunRequestIgnored NameTaken")
			s.at("1 03:00", n)
			s.expectMade("1 02:00", "1 03:00")
		})
		It("a request while it is invalid", func() {
			s := newStage(GinkgoTB())
			n := s.nightly()
			good := n.Spec.Schedule
			suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) { n.Spec.Schedule = "every night" })
			s.request(n, "1 02:00")
			for range 2 {
				s.at("1 02:00", n)
				s.expectHandled(n, "", "write five fields")
			}
			s.expectTold("Warning FailedValidation", "Warning RunRequestIgnored FailedValidation: …write five fields")
			suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) { n.Spec.Schedule = good })
			s.at("1 02:01", n)
			s.expectMade()
		})
	})

	Context("continues after an interruption between any two steps", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			status error
			blind  bool
		}{
			"before the status was written":         {status: errDown},
			"by a conflict":                         {status: errChanged},
			"and the cache is stale":                {status: errDown, blind: true},
			"by a conflict, and the cache is stale": {status: errChanged, blind: true},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				n := s.nightly(policy(v1alpha1.ConcurrencyPolicyForbid))
				s.request(n, "1 02:00")
				api := &broken{Client: s.Client, status: tc.status}
				s.r.Client, s.now = api, s.time("1 02:00")
				if _, err := s.pass(n); (err != nil) != errors.Is(tc.status, errDown) {
					t.Errorf("the reconcile ended with %v", err)
				}
				s.expectMade("1 02:00")
				if n.Status.LastHandledRunRequest != "" {
					t.Fatal("the status was written")
				}
				api.status, api.blind = nil, tc.blind
				s.at("1 02:01", n)
				s.expectMade("1 02:00")
				s.expectHandled(n, s.backupName("1 02:00"), "")
				if n.Status.LastBackup != s.backupName("1 02:00") {
					t.Errorf("the last Backup is %q", n.Status.LastBackup)
				}
				s.expectTold("Normal BackupCreated")
			})
		}
	})

	It("retries while the API server rejects the Backup", func() {
		t := GinkgoTB()
		s := newStage(t)
		n := s.nightly(func(spec *v1alpha1.ScheduleSpec) { spec.Suspend = true })
		s.request(n, "1 02:00")
		api := &broken{Client: s.Client, create: apierrors.NewForbidden(schema.GroupResource{Resource: "backups"}, "x", errors.New("policy says no"))}
		s.r.Client, s.now = api, s.time("1 02:00")
		if _, err := s.pass(n); err == nil {
			t.Error("it is not retried")
		}
		s.expectStatus(n, expect{Phase: "Suspended", Stalled: "BackupNotCreated"})
		if n.Status.LastHandledRunRequest != "" {
			t.Errorf("request %s is handled", n.Status.LastHandledRunRequest)
		}
		api.create = nil
		s.at("1 02:10", n)
		s.expectMade("1 02:10")
		s.expectHandled(n, s.backupName("1 02:00"), "")
	})
})
