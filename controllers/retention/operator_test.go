// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/retention"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// operate starts an operator whose clock stands still.
func (s *stage) operate(at time.Duration) {
	s.t.Helper()
	now := s.start.Add(at)
	s.now = now
	s.StartManager(func(mgr ctrl.Manager) error {
		if err := retention.IndexDeletionRuns(s.t.Context(), mgr.GetFieldIndexer()); err != nil {
			return err
		}
		return (&Reconciler{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("grapnel"), Metrics: prometheus.NewRegistry(),
			Now: func() time.Time { return now }, ServerTime: func(context.Context, string) (time.Time, error) { return now, nil },
		}).SetupWithManager(mgr)
	})
}

// awaitDeletion waits for a DeletionRun of the Backup other than earlier.
func (s *stage) awaitDeletion(b *v1alpha1.Backup, earlier *v1alpha1.DeletionRun) *v1alpha1.DeletionRun {
	s.t.Helper()
	var found v1alpha1.DeletionRun
	suite.Eventually(s.t, func() string {
		for _, d := range s.deletions() {
			if d.Spec.BackupUID == string(b.UID) && (earlier == nil || d.UID != earlier.UID) {
				found = d
				return ""
			}
		}
		return "there is no DeletionRun of Backup " + b.Name
	})
	s.releaseDeletion(&found)
	return &found
}

var _ = Describe("The retention controller", Label("schedule"), func() {
	It("reacts to changes", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.backup("nightly")
		restore := suite.Create(s.Env, &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "back"}, Spec: v1alpha1.RestoreSpec{BackupName: "nightly"}})
		young := s.backup("young", func(b *v1alpha1.Backup) { b.Spec.TTL = &metav1.Duration{Duration: 9 * month} })
		s.operate(2 * month)
		later := s.backup("later") // it is processed after the earlier ones, which are enqueued in the same way
		s.awaitDeletion(later, nil)
		suite.WaitFor(s.Env, b, func(b *v1alpha1.Backup) string {
			if b.Status.Expiration == nil {
				return "its expiration is not written"
			}
			return ""
		})
		s.expectDoomed("later")

		restore.Status.Phase, restore.Status.CompletionTimestamp = v1alpha1.RunPhaseCompleted, &metav1.Time{Time: s.now}
		s.writeStatus(restore)
		first := s.awaitDeletion(b, nil)
		s.WaitForEvent(b, "Normal Expired: The Backup expired at")
		s.Delete(first) // canceled, and the Backup is still expired
		second := s.awaitDeletion(b, first)

		suite.UpdateWithRetry(s.Env, b, func(b *v1alpha1.Backup) { b.Spec.TTL = nil })
		s.WaitForDeletion(second)
		suite.UpdateWithRetry(s.Env, young, func(b *v1alpha1.Backup) { b.Spec.TTL = &metav1.Duration{Duration: month} })
		s.awaitDeletion(young, nil)
	})

	It("reacts to changes of a Schedule", func() {
		t := GinkgoTB()
		s := newStage(t)
		two, one := int32(2), int32(1)
		n := s.schedule(&two)
		older, newest := s.night(1, night{phase: "Completed"}), s.night(2, night{phase: "Completed"})
		s.operate(2 * month)
		for _, b := range []*v1alpha1.Backup{older, newest} {
			s.WaitForEvent(b, "Normal KeptByItsSchedule: ")
		}
		suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) { n.Spec.KeepLast = &one })
		s.awaitDeletion(older, nil)
		s.expectDoomed(older.Name)
		s.Delete(n)
		s.awaitDeletion(newest, nil)
	})

	It("removes the finalizer when the data is deleted", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.backup("nightly", without, goes)
		s.operate(0)
		suite.WaitFor(s.Env, b, func(b *v1alpha1.Backup) string {
			if len(b.Finalizers) == 0 {
				return "nothing holds it"
			}
			return ""
		})
		s.Delete(b)
		d := s.awaitDeletion(b, nil)
		s.destroys(d, b)
		s.WaitForDeletion(b)
	})
})

// TestSetupWithManager_MissingFields rejects an incomplete Reconciler.
func TestSetupWithManager_MissingFields(t *testing.T) {
	if err := (&Reconciler{}).SetupWithManager(nil); err == nil || !strings.Contains(err.Error(), "required field") {
		t.Errorf("the error is %v", err)
	}
}
