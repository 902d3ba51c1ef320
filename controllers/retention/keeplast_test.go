// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/schedule"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// night is a Backup that Schedule nightly created.
type night struct {
	phase v1alpha1.RunPhase
	// lost is set if its data is missing, doomed if a user requested its deletion, and copied if
	// it is a copy of one.
	lost, doomed, copied bool
	edit                 func(*v1alpha1.Backup)
}

// night creates the Backup of a night; they are counted from 1. All of them have the same ttl.
func (s *stage) night(n int, night night) *v1alpha1.Backup {
	s.t.Helper()
	at := s.start.AddDate(0, 0, n-1)
	name := schedule.RunName("nightly", at)
	if night.copied {
		name = "copy-of-" + name
	}
	b := s.backup(name, func(b *v1alpha1.Backup) {
		b.Labels = map[string]string{v1alpha1.LabelScheduleName: "nightly"}
		b.Annotations = map[string]string{v1alpha1.AnnotationScheduledTime: at.Format(time.RFC3339)}
		b.Status.Phase, b.Status.StartTimestamp = night.phase, &metav1.Time{Time: at}
		if night.phase == v1alpha1.RunPhaseInProgress {
			b.Status.CompletionTimestamp = nil
			conditions.SetSummary(b, conditions.InProgress, "Archiving", "")
		}
		if night.lost {
			conditions.Set(b, v1alpha1.ConditionDataAvailable, metav1.ConditionFalse, v1alpha1.ReasonDataMissing, "")
		}
		if night.edit != nil {
			night.edit(b)
		}
	})
	if night.doomed {
		s.requested("destroy-"+name, name)
	}
	return b
}

var _ = Describe("The protection by a Schedule", Label("schedule"), func() {
	Context("keeps the last Backups", func() {
		good, partial, failed, running := night{phase: "Completed"}, night{phase: "PartiallyFailed"}, night{phase: "Failed"}, night{phase: "InProgress"}
		doomed, lost := night{phase: "Completed", doomed: true}, night{phase: "Completed", lost: true}
		other := night{phase: "Completed", edit: func(b *v1alpha1.Backup) { b.Labels = map[string]string{v1alpha1.LabelScheduleName: "hourly"} }}
		foreign := night{phase: "Completed", edit: func(b *v1alpha1.Backup) {
			b.Spec.ImportedFrom, b.Spec.TTL = &v1alpha1.ImportSource{StorageLocation: "main"}, nil
		}}
		byHand := night{phase: "Completed", edit: func(b *v1alpha1.Backup) { b.Annotations = nil }}
		for name, tc := range suite.SortedByName(map[string]struct {
			keep   int32
			nights []night
			// want are the nights whose Backups are destroyed.
			want []int
		}{
			"the last":                    {1, []night{good, good, good}, []int{1, 2}},
			"the last two":                {2, []night{good, good, good}, []int{1}},
			"none":                        {0, []night{good, good, good}, []int{1, 2, 3}},
			"more than there are":         {9, []night{good, good, good}, nil},
			"failed ones after it":        {1, []night{good, good, failed, failed}, []int{1, 3, 4}},
			"in part is not good":         {1, []night{good, partial, partial}, []int{2, 3}},
			"one that runs":               {1, []night{good, good, running}, []int{1}},
			"the last is doomed":          {1, []night{good, good, doomed}, []int{1}},
			"two, and one is doomed":      {2, []night{good, good, good, doomed}, []int{1}},
			"the last one's data is lost": {1, []night{good, good, lost}, []int{1}},
			"all data is lost":            {1, []night{lost, lost}, nil},
			"another Schedule's last":     {1, []night{good, good, other}, []int{1, 3}},
			"found in a location":         {1, []night{good, good, foreign}, []int{1}},
			"labeled manually":            {1, []night{good, good, byHand}, []int{1, 3}},
			"a copy of one":               {1, []night{good, good, {phase: "Completed", copied: true}}, []int{1, 3}},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				s.schedule(&tc.keep)
				var backups []*v1alpha1.Backup
				for i, night := range tc.nights {
					backups = append(backups, s.night(i+1, night))
				}
				for range 2 {
					for _, b := range backups {
						s.at(2*month, b)
					}
				}
				var want []string
				for _, n := range tc.want {
					want = append(want, backups[n-1].Name)
				}
				s.expectDoomed(want...)
			})
		}
	})

	Context("ends with a newer good Backup", func() {
		for name, end := range suite.SortedByName(map[string]func(*stage, *v1alpha1.Schedule){
			"there is a newer one":    func(s *stage, _ *v1alpha1.Schedule) { s.night(2, night{phase: "Completed"}) },
			"the Schedule is deleted": func(s *stage, n *v1alpha1.Schedule) { s.Delete(n) },
			"the Schedule keeps none": func(s *stage, n *v1alpha1.Schedule) {
				none := int32(0)
				suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) { n.Spec.KeepLast = &none })
			},
			"the newer one ends, later": func(s *stage, _ *v1alpha1.Schedule) {
				b := s.night(2, night{phase: "InProgress"})
				s.at(2*month, b)
				b.Status.Phase, b.Status.CompletionTimestamp = "Completed", &metav1.Time{Time: s.now}
				s.writeStatus(b)
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				n := s.schedule(nil) // 1 is the default
				b := s.night(1, night{phase: "Completed"})
				if result := s.keeps(2*month, b); result.RequeueAfter != time.Hour {
					t.Errorf("it is requeued after %v", result.RequeueAfter)
				}
				s.expectTold("Normal KeptByItsSchedule Expire: …one of the newest 1 Completed Backups of Schedule nightly (keepLast)")
				end(s, n)
				s.at(2*month, b)
				s.expectDoomed(b.Name)
				s.expectTold("Normal Expired Expire: ")
			})
		}
	})
})

// schedule creates Schedule nightly.
func (s *stage) schedule(keep *int32) *v1alpha1.Schedule {
	s.t.Helper()
	return suite.Create(s.Env, &v1alpha1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: v1alpha1.ScheduleSpec{Schedule: "@daily", KeepLast: keep},
	})
}
