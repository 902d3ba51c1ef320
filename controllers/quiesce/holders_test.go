// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// ended writes the status of a finished Backup, with the condition CleanupOwed; "" is none.
func (s *stage) ended(b *v1alpha1.Backup, owed metav1.ConditionStatus, reason string) {
	s.t.Helper()
	now := metav1.NewTime(s.start)
	b.Status.Phase, b.Status.CompletionTimestamp = v1alpha1.RunPhaseCompleted, &now
	conditions.SetSummary(b, conditions.Current, v1alpha1.ReasonCompleted, "Completed")
	if owed != "" {
		conditions.Set(b, v1alpha1.ConditionCleanupOwed, owed, reason, "by a test")
	}
	if err := s.Client.Status().Update(s.t.Context(), b); err != nil {
		s.t.Fatal(err)
	}
}

var _ = Describe("Quiesced workloads", Label("hooks"), func() {
	Context("are unquiesced when no unfinished run holds them", func() {
		const back, told = "Deployment web: Warning QuiesceAbandoned Unquiesce: It was unquiesced: the run that quiesced it ended without",
			"Backup b: Warning QuiesceAbandoned Unquiesce: Its workloads were still quiesced after it had ended"
		for name, tc := range suite.SortedByName(map[string]struct {
			holder    func(*stage) string
			keeps     bool
			wantEvent []string
		}{
			"it runs": {keeps: true, holder: func(s *stage) string { return string(s.backup("b").UID) }},
			"it has ended, and owes its clean-up": {keeps: true, holder: func(s *stage) string {
				b := s.backup("b")
				s.ended(b, metav1.ConditionTrue, v1alpha1.ReasonCleanupOverdue)
				return string(b.UID)
			}},
			"it has ended": {wantEvent: []string{back, told}, holder: func(s *stage) string {
				b := s.backup("b")
				s.ended(b, "", "")
				return string(b.UID)
			}},
			"it has ended, and its clean-up was done": {wantEvent: []string{back, told}, holder: func(s *stage) string {
				b := s.backup("b")
				s.ended(b, metav1.ConditionFalse, v1alpha1.ReasonCleanupDone)
				return string(b.UID)
			}},
			"it has ended, and its clean-up is lost": {wantEvent: []string{back, told}, holder: func(s *stage) string {
				b := s.backup("b")
				s.ended(b, metav1.ConditionTrue, v1alpha1.ReasonCleanupLost)
				return string(b.UID)
			}},
			"it does not exist": {wantEvent: []string{back}, holder: func(*stage) string { return "3b1c6f4e-0000-4000-8000-000000000000" }},
			"another operator handles it, in another namespace": {keeps: true, holder: func(s *stage) string {
				other := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: cluster.NewEnv(s.t).Namespace}, Spec: v1alpha1.RestoreSpec{BackupName: "b"}}
				if err := s.Client.Create(s.t.Context(), other); err != nil {
					s.t.Fatal(err)
				}
				return string(other.UID)
			}},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				suite.Create(s.Env, deployment("web", 3))
				s.quiesce(tc.holder(s), 0)
				s.sleeps(0)
				if again := s.sleeps(endedHolderGracePeriod - time.Second); again > time.Second {
					t.Errorf("it is requeued after %s", again)
				}
				s.expectStopped("Deployment web")
				if _, err := s.at(endedHolderGracePeriod); err != nil {
					t.Fatal(err)
				}
				if _, err := s.at(1000 * time.Hour); err != nil {
					t.Fatal(err)
				}
				if tc.keeps {
					s.expectStopped("Deployment web")
				} else {
					s.expectStopped()
				}
				s.expectTold(tc.wantEvent...)
			})
		}
	})

	It("stay quiesced when another unfinished run holds them", func() {
		t := GinkgoTB()
		s := newStage(t)
		suite.Create(s.Env, deployment("web", 3))
		s.quiesce("gone", 0)
		s.quiesce(string(s.backup("runs").UID), time.Hour)
		s.sleeps(0)
		if again := s.sleeps(2 * endedHolderGracePeriod); again != time.Hour-2*endedHolderGracePeriod {
			t.Errorf("it is requeued after %s", again)
		}
		s.expectStopped("Deployment web")
		if _, err := s.at(time.Hour); err != nil {
			t.Fatal(err)
		}
		s.expectStopped()
		s.expectTold("Deployment web: Warning QuiesceOverdue Unquiesce: It was unquiesced", "Backup runs: Warning QuiesceOverdue…raise maxQuiesceDuration")
	})

	It("stay quiesced while it is unknown whether the holder exists", func() {
		t := GinkgoTB()
		s := newStage(t)
		suite.Create(s.Env, deployment("web", 3))
		s.quiesce("gone", 0)
		suite.Create(s.Env, deployment("api", 3))
		b := s.backup("b")
		s.ended(b, "", "")
		if _, err := s.quiescer.Quiesce(t.Context(), s.request(string(b.UID), 0)); err != nil {
			t.Fatal(err)
		}
		s.sleeps(0)
		s.r.APIReader = unreachable{}
		if _, err := s.at(endedHolderGracePeriod); err == nil {
			t.Error("it is not retried")
		}
		s.expectStopped("Deployment web")
		s.expectTold("Deployment api: Warning QuiesceAbandoned", "Backup b: Warning QuiesceAbandoned")
		s.r.APIReader = s.Client
		if _, err := s.at(endedHolderGracePeriod); err != nil {
			t.Fatal(err)
		}
		s.expectStopped()
		s.expectTold("Deployment web: Warning QuiesceAbandoned", "Backup b: Warning QuiesceAbandoned…/web")
	})
})

// unreachable is an API server that does not answer.
type unreachable struct{ client.Reader }

func (unreachable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no connection")
}
