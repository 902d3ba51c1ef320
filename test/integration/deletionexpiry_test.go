// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The expiration of backups", Label("deletion"), func() {
	It("destroys an expired Backup", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Spec.TTL = &metav1.Duration{Duration: 720 * time.Hour}
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		world.Patch(t, b, `{"spec":{"ttl":"1s"}}`)
		s.gone(t, b)
		awaitEvent(t, b, "Normal Expired: ")
	})

	// It is deleted when no Schedule protects it any more.
	It("keeps the newest successful Backup of a Schedule", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app, one := world.CreateApp(t, 1), int32(1)
		schedule := env.Create(t, world.Client, &v1alpha1.Schedule{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"},
			Spec:       v1alpha1.ScheduleSpec{Schedule: "@yearly", Suspend: true, KeepLast: &one},
		})
		var backups [2]*v1alpha1.Backup
		for i := range backups {
			b := s.NewBackup(app)
			b.Labels = map[string]string{v1alpha1.LabelScheduleName: schedule.Name}
			b.GenerateName, b.Name = "", fmt.Sprintf("%s-2024050%d030000", schedule.Name, i+1) // as the Schedule calls them
			b.Annotations = map[string]string{v1alpha1.AnnotationScheduledTime: fmt.Sprintf("2024-05-0%dT03:00:00Z", i+1)}
			backups[i] = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		}
		older, newest := backups[0], backups[1]
		for _, b := range backups {
			world.Patch(t, b, `{"spec":{"ttl":"1s"}}`)
		}
		awaitEvent(t, newest, "Normal "+v1alpha1.ReasonKept+": The Backup expired at ")
		s.gone(t, older)
		for _, d := range deletionsOf(newest) {
			t.Errorf("DeletionRun %s was created for the last Backup of the Schedule", d.Name)
		}
		world.Delete(t, schedule)
		s.gone(t, newest)
		awaitEvent(t, newest, "Normal Expired: ")
	})
})
