// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// requestOf returns the request for a Backup.
func requestOf(b *v1alpha1.Backup) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)}
}

// ending is the error of an API server for a creation in a namespace that is being
// deleted.
func ending() error {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "deletionruns"}, "x", errors.New("it is being terminated"))
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return refusal
}

// behind is a cache with an outdated copy of one DeletionRun.
type behind struct {
	client.Client
	deletion *v1alpha1.DeletionRun
}

// Get implements client.Client.
func (b *behind) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if d, is := object.(*v1alpha1.DeletionRun); is && key.Name == b.deletion.Name {
		b.deletion.DeepCopyInto(d)
		return nil
	}
	return b.Client.Get(ctx, key, object, options...)
}

var _ = Describe("The finalizer of a Backup", Label("schedule"), func() {
	It("follows the deletion policy", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.backup("nightly", without)
		s.at(0, b)
		s.expectHeld(b, false)
		for _, policy := range []v1alpha1.DeletionPolicy{"Delete", "Retain", "Delete"} {
			suite.UpdateWithRetry(s.Env, b, func(b *v1alpha1.Backup) { b.Spec.DeletionPolicy = policy })
			s.at(0, b)
			s.expectHeld(b, policy == v1alpha1.DeletionPolicyDelete)
		}
		holds(s, b)
		s.Delete(b)
		suite.UpdateWithRetry(s.Env, b, func(b *v1alpha1.Backup) { b.Spec.DeletionPolicy = "Retain" })
		s.at(0, b)
		s.expectHeld(b, false)
		s.expectDoomed()

		running := s.backup("running", goes, func(b *v1alpha1.Backup) { b.Status = v1alpha1.BackupStatus{} })
		s.at(0, running)
		s.expectHeld(running, true)
	})

	It("is removed from an imported Backup", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.backup("theirs", without, func(b *v1alpha1.Backup) {
			b.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: "main"}
			b.Finalizers = []string{v1alpha1.FinalizerStoredData}
		})
		s.at(0, b)
		s.expectHeld(b, false)
	})

	It("keeps the Backup until its data is deleted", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.deleted()
		s.at(0, b)
		d := s.deletion()
		s.expectSpec(d, b, v1alpha1.DeletionCauseBackupDeleted)
		s.at(time.Minute, b)
		if err := s.r.createDeletionRunForDeleted(t.Context(), b); err != nil { // as with a cache that does not contain the DeletionRun
			t.Fatal(err)
		}
		if s.deletion().UID != d.UID {
			t.Error("another DeletionRun exists")
		}
		s.begins(d)
		s.at(time.Minute, b)
		s.expectHeld(b, true)
		s.destroys(d, b)
		s.at(time.Minute, b)
		if suite.GetIfExists(s.Env, b) {
			t.Error("it still exists")
		}
		s.expectTold()
		s.expectKept(0)
	})

	Context("uses an existing DeletionRun", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			prepare func(*stage, *v1alpha1.Backup)
			// own is set if the Backup gets its own DeletionRun, and gone if the Backup is deleted.
			own, gone bool
		}{
			"no DeletionRun": {func(*stage, *v1alpha1.Backup) {}, true, false},
			"a user":         {func(s *stage, b *v1alpha1.Backup) { s.requested("by-hand", b.Name) }, false, false},
			"a user, begun and deleted": {func(s *stage, b *v1alpha1.Backup) {
				d := holds(s, s.requested("by-hand", b.Name))
				s.begins(d)
				s.Delete(d)
			}, false, false},
			"a user, deleted": {func(s *stage, b *v1alpha1.Backup) { s.Delete(holds(s, s.requested("by-hand", b.Name))) }, true, false},
			"a user, invalid": {func(s *stage, b *v1alpha1.Backup) {
				s.ends(s.requested("by-hand", b.Name), v1alpha1.RunPhaseFailedValidation)
			}, true, false},
			"a user, finished": {func(s *stage, b *v1alpha1.Backup) { s.destroys(s.requested("by-hand", b.Name), b) }, false, true},
			"a user, twice": {func(s *stage, b *v1alpha1.Backup) {
				earlier := b.DeepCopy()
				earlier.UID = "1-2-3"
				s.destroys(s.requested("by-hand", b.Name), earlier)
			}, true, false},
			"another Backup's": {func(s *stage, _ *v1alpha1.Backup) { s.requested("by-hand", "hourly") }, true, false},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				b := s.deleted()
				tc.prepare(s, b)
				for range 2 {
					s.at(time.Minute, b)
				}
				var want []string
				if tc.own {
					want = []string{"nightly"}
				}
				s.expectDoomed(want...)
				if gone := !suite.GetIfExists(s.Env, b); gone != tc.gone {
					t.Errorf("gone is %t", gone)
				}
			})
		}
	})

	Context("is removed when DeletionRuns end without effect", func() {
		It("canceled", func() {
			t := GinkgoTB()
			s := newStage(t)
			b := s.deleted()
			s.at(0, b)
			first := holds(s, s.deletion())
			s.Delete(first)
			s.at(0, b) // the name is taken
			s.expectDoomed()
			suite.UpdateWithRetry(s.Env, first, func(d *v1alpha1.DeletionRun) { d.Finalizers = nil })
			s.at(0, b)
			s.expectDoomed("nightly")
		})
		for _, phase := range []v1alpha1.RunPhase{"FailedValidation", "Cancelled", "Completed"} {
			It("ended as "+string(phase), func() {
				t := GinkgoTB()
				s := newStage(t)
				b := s.deleted()
				s.at(0, b)
				first := s.deletion()
				s.ends(first, phase)
				if result := s.at(59*time.Minute, b); result.RequeueAfter != time.Hour {
					t.Errorf("it is requeued after %v", result.RequeueAfter)
				}
				if s.deletion().UID != first.UID {
					t.Error("another one exists immediately, which ends in the same way")
				}
				s.at(time.Hour, b)
				s.at(time.Hour, b)
				second := s.deletion()
				if second.UID == first.UID {
					t.Fatal("no other one exists")
				}
				s.destroys(second, b)
				s.at(time.Hour, b)
				if suite.GetIfExists(s.Env, b) {
					t.Error("the Backup still exists")
				}
			})
		}
	})

	Context("is removed, with an event, when the data cannot be destroyed", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			edit  func(*v1alpha1.Backup)
			begun bool
			gone  bool
			told  []string
			kept  float64
		}{
			"stored": {
				gone: true, kept: 1,
				told: []string{"Warning DataLeftBehind Delete: The stored data of Backup nightly stays in BackupStorageLocation main: …namespace is being deleted"},
			},
			"nothing stored":       {edit: func(b *v1alpha1.Backup) { b.Status.StorageLocation = "" }, gone: true},
			"a deletion has begun": {begun: true},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				edits := []func(*v1alpha1.Backup){}
				if tc.edit != nil {
					edits = append(edits, tc.edit)
				}
				b := s.deleted(edits...)
				if tc.begun {
					s.begins(holds(s, s.requested("by-hand", b.Name)))
				}
				s.Delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
				for _, d := range s.deletions() {
					s.Delete(&d)
				}
				s.at(0, b)
				if gone := !suite.GetIfExists(s.Env, b); gone != tc.gone {
					t.Errorf("gone is %t", gone)
				}
				s.expectTold(tc.told...)
				s.expectKept(tc.kept)
			})
		}
	})

	It("counts data that is left behind once", func() {
		t := GinkgoTB()
		s := newStage(t)
		b := s.deleted()
		down := errors.New("the API server is down")
		s.r.Client = &broken{Client: s.Client, create: ending(), patch: down}
		if _, err := s.r.Reconcile(t.Context(), requestOf(b)); !errors.Is(err, down) {
			t.Errorf("the error is %v", err)
		}
		s.r.Client = &broken{Client: s.Client, create: ending()}
		s.at(0, b)
		s.expectKept(1)
		if suite.GetIfExists(s.Env, b) {
			t.Error("it still exists")
		}

		other := s.backup("other", without, goes)
		s.r.Client = s.Client
		s.at(0, other)
		s.Delete(other)
		s.r.Client = &broken{Client: s.Client, create: down}
		if _, err := s.r.Reconcile(t.Context(), requestOf(other)); !errors.Is(err, down) {
			t.Errorf("the error is %v", err)
		}
		s.expectHeld(other, true)
	})

	Context("stays while a DeletionRun needs the Backup", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			end func(*stage, *v1alpha1.DeletionRun, *v1alpha1.Backup)
			// holds says that the DeletionRun deletes the Backup next.
			holds bool
		}{
			"the data is deleted": {end: (*stage).destroys, holds: true},
			"it ends without effect": {end: func(s *stage, d *v1alpha1.DeletionRun, _ *v1alpha1.Backup) {
				s.ends(d, v1alpha1.RunPhaseCancelled)
			}},
			"it is deleted": {end: func(s *stage, d *v1alpha1.DeletionRun, _ *v1alpha1.Backup) { s.Delete(d) }},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				claim := func(name string) (*v1alpha1.Backup, *v1alpha1.DeletionRun) {
					b := s.backup(name, without)
					d := s.requested("destroy-"+name, name)
					suite.UpdateWithRetry(s.Env, b, func(b *v1alpha1.Backup) {
						b.Annotations = map[string]string{v1alpha1.AnnotationDeletedBy: string(d.UID)}
						b.Finalizers = []string{v1alpha1.FinalizerStoredData}
					})
					s.at(0, b)
					s.expectHeld(b, true)
					return b, d
				}
				deleted, of := claim("deleted")
				s.Delete(deleted)
				s.at(0, deleted)
				s.expectHeld(deleted, true)
				tc.end(s, of, deleted)
				s.at(0, deleted)
				if suite.GetIfExists(s.Env, deleted) {
					t.Error("it still exists")
				}

				stays, of := claim("stays")
				tc.end(s, of, stays)
				s.at(0, stays)
				if tc.holds {
					s.expectHeld(stays, true)
					s.ends(of, v1alpha1.RunPhaseCompleted)
					s.at(0, stays)
				}
				s.expectHeld(stays, false)
				s.expectDoomed()
			})
		}
	})
})

// deleted creates a Backup with the policy Delete, and deletes it.
func (s *stage) deleted(edits ...func(*v1alpha1.Backup)) *v1alpha1.Backup {
	s.t.Helper()
	b := s.backup("nightly", append([]func(*v1alpha1.Backup){without, goes}, edits...)...)
	s.at(0, b)
	s.Delete(b)
	suite.GetIfExists(s.Env, b)
	return b
}
