// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Deletions that depend on others", Label("deletion"), func() {
	It("shows a deleted Backup to its actions", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action, release := held(t, v1alpha1.ActionKindDelete)
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(action)
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		d := destroy(t, b)
		awaitCalled(t, d, action)
		world.Delete(t, b)
		if !slices.Contains(latest(b).Finalizers, v1alpha1.FinalizerStoredData) {
			t.Error("nothing keeps the Backup for the actions")
		}
		release()
		destroyed(t, d, v1alpha1.RunPhaseCompleted)
		s.gone(t, b)
	})

	It("does not wait for a Backup that never runs", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Spec.DeletionPolicy, b.Finalizers = v1alpha1.DeletionPolicyDelete, []string{v1alpha1.FinalizerStoredData}
		b.Labels = env.LabelsForActions(preHolds)
		env.Create(t, world.Client, b)
		world.Delete(t, b)
		s.gone(t, b)
	})

	// That a location is read-only for now is no reason to restore nothing from it.
	It("does not block Restores while it waits for its location", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		files := env.Create(t, world.Client, newDirLocation(s, "only-read"))
		app := world.CreateApp(t, 1)
		b := s.NewBackup(app)
		b.Spec.StorageLocation = files.Name
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		world.Patch(t, files, `{"spec":{"accessMode":"ReadOnly"}}`)
		d := destroy(t, b)
		awaiting(t, d, v1alpha1.ReasonWaitingForLocation)
		restored(t, env.Create(t, world.Client, restoreOf(b, app)), v1alpha1.RunPhaseCompleted)
		world.Patch(t, files, `{"spec":{"accessMode":"ReadWrite"}}`)
		destroyed(t, d, v1alpha1.RunPhaseCompleted)
		awaitGone(t, b)
		world.Delete(t, files)
	})

	It("does not block others while it waits for a finalizer", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		const held = "example.io/held"
		var runs []*v1alpha1.DeletionRun
		var backups []*v1alpha1.Backup
		for range 5 {
			b := s.NewBackup(app)
			b.Finalizers = []string{held}
			backups = append(backups, env.Create(t, world.Client, b))
		}
		for _, b := range backups {
			await(t, b, "it has ended", func(b *v1alpha1.Backup) bool { return b.Status.Phase == v1alpha1.RunPhaseCompleted })
			runs = append(runs, destroy(t, b))
		}
		for i, d := range runs {
			await(t, d, "it says what holds it up", func(d *v1alpha1.DeletionRun) bool {
				return d.Status.Message == fmt.Sprintf("Waiting for Backup %s to be deleted; it has the finalizers %s", backups[i].Name, held)
			})
		}
		b := outcome(t, env.Create(t, world.Client, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)
		destroyed(t, destroy(t, b), v1alpha1.RunPhaseCompleted)
		for i, d := range runs {
			world.Patch(t, backups[i], `{"metadata":{"finalizers":null}}`)
			destroyed(t, d, v1alpha1.RunPhaseCompleted)
		}
	})

	It("does not touch another backup of the same name", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := outcome(t, env.Create(t, world.Client, s.NewBackup(world.CreateApp(t, 1))), v1alpha1.RunPhaseCompleted)
		files := s.stored(t, b.Name)
		world.Delete(t, b)
		awaitGone(t, b)
		d := env.Create(t, world.Client, &v1alpha1.DeletionRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"},
			Spec: v1alpha1.DeletionRunSpec{
				BackupName: b.Name, BackupUID: "1-2-3", StorageLocation: env.DefaultLocation, TTL: &metav1.Duration{Duration: time.Hour},
			},
		})
		destroyed(t, d, v1alpha1.RunPhaseCompleted, "does not exist anymore; another backup has its name")
		env.CheckEqual(t, "the files", s.stored(t, b.Name), files)
	})

	It("keeps the last Backup of a Schedule", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		one := int32(1)
		schedule := env.Create(t, world.Client, &v1alpha1.Schedule{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"},
			Spec:       v1alpha1.ScheduleSpec{Schedule: "@yearly", Suspend: true, KeepLast: &one},
		})
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = map[string]string{v1alpha1.LabelScheduleName: schedule.Name}
		b.GenerateName, b.Name = "", schedule.Name+"-20240501030000"
		b.Annotations = map[string]string{v1alpha1.AnnotationScheduledTime: "2024-05-01T03:00:00Z"}
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		d := deletionOf(b)
		d.Spec.Cause = v1alpha1.DeletionCauseScheduleLimit
		destroyed(t, env.Create(t, world.Client, d), v1alpha1.RunPhaseCancelled, "is kept as one of the newest 1 successful Backups of Schedule "+schedule.Name)
		destroyed(t, destroy(t, b), v1alpha1.RunPhaseCompleted) // a person may
		s.gone(t, b)
	})
})
