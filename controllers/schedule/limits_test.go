// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/schedule"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

func keep(succeeded, failed, last int32) func(*v1alpha1.ScheduleSpec) {
	return func(spec *v1alpha1.ScheduleSpec) {
		spec.KeepFailed, spec.KeepLast = &failed, &last
		if succeeded > 0 {
			spec.KeepSucceeded = &succeeded
		}
	}
}

var _ = Describe("The limits of a Schedule", Label("schedule"), func() {
	Context("destroy the oldest Backups in excess", func() {
		const (
			good    = v1alpha1.RunPhaseCompleted
			partial = v1alpha1.RunPhasePartiallyFailed
			bad     = v1alpha1.RunPhaseFailed
		)
		restoring := func(s *stage, restore v1alpha1.RestoreSpec) {
			suite.Create(s.Env, &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{GenerateName: "back-"}, Spec: restore})
		}
		for name, tc := range suite.SortedByName(map[string]struct {
			keep   func(*v1alpha1.ScheduleSpec)
			phases [5]v1alpha1.RunPhase
			edit   func(*v1alpha1.Backup)
			also   func(*stage)
			want   []string
		}{
			"all succeeded": {keep: keep(2, 0, 1), phases: [5]v1alpha1.RunPhase{good, good, good, good, good}, want: []string{"1 03:00", "2 03:00", "3 03:00"}},
			"no limit":      {keep: keep(0, 9, 1), phases: [5]v1alpha1.RunPhase{good, bad, good, bad, partial}},
			"failed":        {keep: keep(0, 1, 1), phases: [5]v1alpha1.RunPhase{bad, "Cancelled", good, "FailedValidation", bad}, want: []string{"1 03:00", "2 03:00", "4 03:00"}},
			"in part": {
				keep: keep(2, 0, 0), phases: [5]v1alpha1.RunPhase{good, partial, partial, partial, bad},
				want: []string{"1 03:00", "2 03:00", "5 03:00"},
			},
			"the last that succeeded": {
				keep: keep(2, 0, 1), phases: [5]v1alpha1.RunPhase{good, partial, partial, partial, bad},
				want: []string{"2 03:00", "5 03:00"},
			},
			"running": {keep: keep(1, 0, 1), phases: [5]v1alpha1.RunPhase{good, "", good, "InProgress", "New"}, want: []string{"1 03:00"}},
			"one that is restored": {
				keep: keep(2, 0, 1), phases: [5]v1alpha1.RunPhase{good, good, good, good, good},
				also: func(s *stage) { restoring(s, v1alpha1.RestoreSpec{BackupName: s.backupName("2 03:00")}) },
				want: []string{"1 03:00", "3 03:00"},
			},
			"any may be restored": {
				keep: keep(2, 0, 1), phases: [5]v1alpha1.RunPhase{good, good, good, good, good},
				also: func(s *stage) { restoring(s, v1alpha1.RestoreSpec{ScheduleName: "nightly"}) },
			},
			"one that is being destroyed": {
				keep: keep(2, 0, 1), phases: [5]v1alpha1.RunPhase{good, good, good, good, good},
				also: func(s *stage) {
					suite.Create(s.Env, &v1alpha1.DeletionRun{
						ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: v1alpha1.DeletionRunSpec{BackupName: s.backupName("5 03:00")},
					})
				},
				want: []string{"1 03:00", "2 03:00", "5 03:00"},
			},
			"those of others": {
				keep: keep(1, 0, 0), phases: [5]v1alpha1.RunPhase{good, good, good, bad, bad},
				edit: func(b *v1alpha1.Backup) { b.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: "main"} },
			},
			"labeled manually": {
				keep: keep(1, 0, 0), phases: [5]v1alpha1.RunPhase{good, good, good, bad, bad},
				edit: func(b *v1alpha1.Backup) { b.Annotations = nil },
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				n := s.nightly(tc.keep)
				for i, phase := range tc.phases {
					at := fmt.Sprintf("%d 03:00", i+1)
					var edits []func(*v1alpha1.Backup)
					if tc.edit != nil {
						edits = append(edits, tc.edit)
					}
					if b := s.made(at, edits...); !slices.Contains([]v1alpha1.RunPhase{"", "New", "InProgress"}, phase) {
						s.end(b, phase, fmt.Sprintf("%d 04:00", i+1))
					}
				}
				// A suspended Schedule creates nothing, but enforces its limits.
				suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) { n.Spec.Suspend = true })
				if tc.also != nil {
					tc.also(s)
				}
				s.at("5 05:00", n)
				s.at("5 05:01", n)
				s.expectDoomed(tc.want...)
			})
		}
	})

	It("replace the default ttl of the operator, but not a ttl of the template", func() {
		t := GinkgoTB()
		for name, tc := range map[string]struct {
			succeeded int32
			ttl, want *metav1.Duration
		}{
			"no limit":           {},
			"a limit":            {succeeded: 12, want: &metav1.Duration{}},
			"a limit, and a ttl": {succeeded: 12, ttl: &metav1.Duration{Duration: time.Hour}, want: &metav1.Duration{Duration: time.Hour}},
		} {
			s := newStage(t)
			s.at("1 03:00", s.nightly(keep(tc.succeeded, 3, 1), func(spec *v1alpha1.ScheduleSpec) { spec.Template.Spec.TTL = tc.ttl }))
			if diff := cmp.Diff(tc.want, s.backup("1 03:00").Spec.TTL); diff != "" {
				t.Errorf("%s: ttl of the Backup (-want +got):\n%s", name, diff)
			}
		}
	})

	It("create a DeletionRun, and a new one if it fails", func() {
		t := GinkgoTB()
		s := newStage(t)
		n := s.nightly(keep(0, 0, 0))
		b := s.made("1 03:00")
		s.end(b, "Failed", "1 04:00")
		s.at("1 05:00", n)
		deletion := s.deletion()
		want := v1alpha1.DeletionRunSpec{
			BackupName: b.Name, BackupUID: string(b.UID), Cause: v1alpha1.DeletionCauseScheduleLimit,
			TTL: &metav1.Duration{Duration: 24 * time.Hour},
		}
		if diff := cmp.Diff(want, deletion.Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}

		before := deletion.DeepCopy()
		deletion.Status.Phase, deletion.Status.CompletionTimestamp = "FailedValidation", &metav1.Time{Time: s.now}
		if err := s.Client.Status().Patch(t.Context(), deletion, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		s.at("1 05:01", n)
		if again := s.deletion(); again.UID != deletion.UID {
			t.Error("another DeletionRun exists, which fails as well")
		}
		suite.UpdateWithRetry(s.Env, deletion, func(d *v1alpha1.DeletionRun) { d.Finalizers = nil }) // as its controller does
		s.Delete(deletion)
		s.at("2 05:00", n)
		if again := s.deletion(); again.UID == deletion.UID {
			t.Error("no other DeletionRun exists")
		}
	})

	It("reacts when a time is due, and when its Backups change", func() {
		t := GinkgoTB()
		s := newStage(t)
		operate(t, s.Env)
		n := s.fresh("@every 1s")
		suite.WaitFor(s.Env, n, func(n *v1alpha1.Schedule) string {
			if n.Status.LastBackup == "" || n.Status.LastSkippedReason != "ConcurrencyForbid" {
				return fmt.Sprintf("status is %+v", n.Status)
			}
			return ""
		})
		s.WaitForEvent(n, "Normal BackupCreated: Created Backup "+n.Status.LastBackup)
		first := s.backups()
		if len(first) != 1 {
			t.Fatalf("there are %d Backups", len(first))
		}
		s.end(&first[0], "Completed", "1 00:00")
		suite.WaitFor(s.Env, n, func(n *v1alpha1.Schedule) string {
			if n.Status.LastBackup == first[0].Name || n.Status.LastSuccessfulTime == nil {
				return fmt.Sprintf("status is %+v", n.Status)
			}
			return ""
		})
		suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) { n.Spec.Schedule = "now and then" })
		suite.WaitFor(s.Env, n, func(n *v1alpha1.Schedule) string {
			return map[bool]string{false: "no"}[n.Status.Phase == "FailedValidation"]
		})
		s.Delete(n)
		s.WaitForDeletion(n)
		if made := s.backups(); len(made) < 2 {
			t.Errorf("the Backups were deleted with their Schedule: %d are left", len(made))
		}
	})

	It("destroys a Backup after its Restore has ended", func() {
		t := GinkgoTB()
		s := newStage(t)
		restore := suite.Create(s.Env, &v1alpha1.Restore{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "back-"}, Spec: v1alpha1.RestoreSpec{BackupName: s.backupName("1 03:00")},
		})
		for _, at := range []string{"1 03:00", "2 03:00", "3 03:00"} {
			s.end(s.made(at), "Completed", at)
		}
		n := s.nightly(keep(1, 0, 1))
		operate(t, s.Env)
		doomed := func(want int) func() string {
			return func() string {
				var list v1alpha1.DeletionRunList
				if err := s.Client.List(t.Context(), &list, client.InNamespace(s.Namespace)); err != nil || len(list.Items) != want {
					return fmt.Sprintf("there are %d DeletionRuns, want %d: %v", len(list.Items), want, err)
				}
				return ""
			}
		}
		suite.Eventually(t, doomed(1))
		s.expectDoomed("2 03:00")
		before := restore.DeepCopy()
		restore.Status.Phase, restore.Status.CompletionTimestamp = "Completed", &metav1.Time{Time: time.Now()}
		if err := s.Client.Status().Patch(t.Context(), restore, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		suite.Eventually(t, doomed(2))
		s.expectDoomed("1 03:00", "2 03:00")
		suite.GetIfExists(s.Env, n)
	})
})

// deletion returns the only DeletionRun.
func (s *stage) deletion() *v1alpha1.DeletionRun {
	s.t.Helper()
	var list v1alpha1.DeletionRunList
	if err := s.Client.List(s.t.Context(), &list, client.InNamespace(s.Namespace)); err != nil {
		s.t.Fatal(err)
	}
	if len(list.Items) != 1 {
		s.t.Fatalf("there are %d DeletionRuns", len(list.Items))
	}
	return &list.Items[0]
}

// operate starts an operator with the real clock.
func operate(t testing.TB, env *suite.Env) {
	t.Helper()
	metrics, err := schedule.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	env.StartManager(func(mgr ctrl.Manager) error {
		return (&schedule.Reconciler{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("grapnel"), Metrics: metrics,
		}).SetupWithManager(mgr)
	})
}
