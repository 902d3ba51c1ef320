// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strconv"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The queue of backups", Label("hooks"), func() {
	It("holds the only slot, and queues others", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--max-concurrent-backups=1")}
		app := world.CreateApp(t, 1)
		holder := s.NewBackup(app)
		holder.Labels = env.LabelsForActions(preHolds)
		s.apply(t, holder)
		awaitCall(t, holder, v1alpha1.HookPreBackup, preHolds)

		var queued []*v1alpha1.Backup
		for i := range 5 {
			b := s.NewBackup(app)
			// Those of one second start in the order of their names.
			b.GenerateName, b.Name = "", fmt.Sprintf("queued-%d", i)
			b = s.apply(t, b)
			b = doing(t, b, v1alpha1.ReasonQueued)
			says(t, []string{b.Status.Message}, "Waiting for one of 1 slots", "--max-concurrent-backups")
			if b.Status.Phase != v1alpha1.RunPhaseNew {
				t.Errorf("the queued Backup %s is %s", b.Name, b.Status.Phase)
			}
			awaitEvent(t, b, "Normal Queued: Waiting for one of 1 slots")
			queued = append(queued, b)
		}
		// One leaves the queue because it is deleted, one because it is canceled.
		world.Delete(t, queued[1])
		awaitGone(t, queued[1])
		cancelBackup(t, queued[3])
		outcome(t, queued[3], v1alpha1.RunPhaseCancelled, "Cancelled before it started")
		for _, i := range []int{0, 2, 4} {
			if b := latest(queued[i]); hasBegun(b) {
				t.Errorf("%s does not wait any more: %s", b.Name, b.Status.Message)
			}
		}

		cancelBackup(t, holder)
		outcome(t, holder, v1alpha1.RunPhaseCancelled)
		free := moment(t, holder, "it has ended", hasEnded)
		for _, i := range []int{0, 2, 4} {
			b := outcome(t, queued[i], v1alpha1.RunPhaseCompleted)
			if moment(t, b, "it has begun", hasBegun) < free {
				t.Errorf("%s began before the one before it had ended", b.Name)
			}
			free = moment(t, b, "it has ended", hasEnded)
		}
	})

	It("shares slots", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--max-concurrent-backups=2")}
		app := world.CreateApp(t, 1)
		var all []*v1alpha1.Backup
		for range 6 {
			b := s.NewBackup(app)
			b.Labels = env.LabelsForActions(preHolds)
			all = append(all, s.apply(t, b))
		}
		// With every one that ends another one begins, never more than two at a time.
		for range len(all) {
			var running []*v1alpha1.Backup
			eventually(t, func() string {
				running = nil
				waiting := 0
				for _, b := range all {
					b = latest(b)
					switch {
					case b.Status.CompletionTimestamp != nil:
					case reasonOf(b, v1alpha1.ConditionSucceeded) == v1alpha1.ReasonQueued:
						waiting++
					case b.Status.StartTimestamp != nil:
						running = append(running, b)
					default:
						return b.Name + " does neither wait nor run"
					}
				}
				if len(running) != 2 && waiting > 0 {
					return fmt.Sprintf("%d run while %d wait", len(running), waiting)
				}
				return ""
			})
			if len(running) == 0 {
				break
			}
			cancelBackup(t, running[0])
			await(t, running[0], "it has ended", isDone)
		}
		for _, b := range all {
			outcome(t, b, v1alpha1.RunPhaseCancelled, "Cancelled: spec.desiredState is Cancel")
		}
	})
})

func hasBegun(b *v1alpha1.Backup) bool { return b.Status.StartTimestamp != nil }

func hasEnded(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil }

// moment returns when a Backup became so, as a number that grows with every change in
// the cluster: timestamps have whole seconds.
func moment(t testing.TB, b *v1alpha1.Backup, what string, right func(*v1alpha1.Backup) bool) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(await(t, b, what, right).ResourceVersion, 10, 64)
	Expect(err).NotTo(HaveOccurred())
	return version
}
