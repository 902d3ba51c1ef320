// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Stores that fail", Label("hooks"), func() {
	It("fails the Backup, and undoes its actions", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		store := newBucket(t, s)
		refuse := uploadsArchive
		store.refuse.Store(&refuse)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(pair, afterCompleted, afterFailed)
		b.Spec.StorageLocation = store.location
		s.apply(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseFailed, "Creating the archive failed: ", "Not today")
		awaitEvent(t, b, "Warning Failed: Creating the archive failed: ")
		env.CheckEqual(t, "PostBackup actions", env.FormatActionStatuses(b.Status.PostBackupActionsStatuses), []string{
			pair + " Completed", afterFailed + " Completed", afterCompleted,
		})
		says(t, []string{s.file(t, b, storage.Logs)}, "Archiving failed", "Not today")
		says(t, messages(s.results(t, b).Errors), "Creating the archive failed: ", "Not today")
		if b.Status.Files == nil || b.Status.Files.Archive != "" || b.Status.Files.Log == "" {
			t.Errorf("the status names the files %+v", b.Status.Files)
		}
	})

	It("does not delay clean-up", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		store := newBucket(t, s)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(preHolds)
		b.Spec.StorageLocation = store.location
		s.apply(t, b)
		awaitCall(t, b, v1alpha1.HookPreBackup, preHolds)
		all := func(*http.Request) bool { return true }
		store.refuse.Store(&all)
		cancelBackup(t, b)
		waiting := await(t, b, "it tries to store its log", func(b *v1alpha1.Backup) bool {
			return reasonOf(b, v1alpha1.ConditionReconciling) == v1alpha1.ReasonStoringLogs &&
				reasonOf(b, v1alpha1.ConditionCleanupOwed) == v1alpha1.ReasonCleanupDone
		})
		if waiting.Status.Phase != v1alpha1.RunPhaseCancelled {
			t.Errorf("the phase is %s: %s", waiting.Status.Phase, waiting.Status.Message)
		}
		await(t, b, "its message says what it waits for", func(b *v1alpha1.Backup) bool {
			return contained(b.Status.Message, "Cancelled: ", "storing the log", "Not today", "; retrying")
		})
		s.undisturbed(t, app)
		store.refuse.Store(nil)
		b = outcome(t, b, v1alpha1.RunPhaseCancelled)
		says(t, []string{s.file(t, b, storage.Logs)}, "Calling the action", preHolds)
	})
})
