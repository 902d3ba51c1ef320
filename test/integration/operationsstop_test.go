// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Operations that are stopped", Label("operations"), func() {
	It("continues the others when a user cancels one", func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 0)
		goOn, give := signal(t)
		operate(t, app, "cancelled", "never")
		operate(t, app, "goes-on", "until:"+goOn)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(operates)
		s.apply(t, b)
		o := operationIn(t, b, "cancelled", v1alpha1.AsyncOperationPhaseInProgress)
		world.Patch(t, o, `{"spec":{"desiredState":"Cancel","cancelReason":"it is not needed"}}`)
		o = operationIn(t, b, "cancelled", v1alpha1.AsyncOperationPhaseCancelled)
		if c := o.Status.Cancel; c == nil || c.Cause != v1alpha1.CancelCauseRequested || c.Answer != v1alpha1.CancelAnswerAcknowledged ||
			!contained(o.Status.Message, "it is not needed") {
			t.Errorf("it was cancelled so: %s", describe(o))
		}
		await(t, b, "it tells that it waits for the other one", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == "WaitingForPluginOperationsPartiallyFailed" && b.Status.Operations.Cancelled == 1
		})
		if err := world.Client.Patch(t.Context(), o.DeepCopy(), runAgain()); err == nil {
			t.Error("the API server took the cancel back")
		}
		give()
		b = outcome(t, b, v1alpha1.RunPhasePartiallyFailed, "1 of 2 operations completed (1 canceled)")
		counted(t, b, 2, 1, 0, 1)
		says(t, s.results(t, b).Errors.OfNamespace(app), "cancelled", operates, "it is not needed")
		contains(t, s.archived(t, b), configMap(app, "cancelled"))
		s.storedOperations(t, b, "Completed", "Canceled", "Cancelled", "Failed")
	})

	Context("cancels every operation and waits for its end", func() {
		for name, deleted := range suite.SortedByName(map[string]bool{"cancelled": false, "deleted": true}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 0)
				for _, object := range []string{"a", "b", "c"} {
					operate(t, app, object, "never")
				}
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(operates, pair)
				s.apply(t, b)
				await(t, b, "it waits for all", func(b *v1alpha1.Backup) bool {
					return b.Status.Phase == "WaitingForPluginOperations" && b.Status.Operations.Attempted == 3
				})
				for _, object := range []string{"a", "b", "c"} {
					operationIn(t, b, object, v1alpha1.AsyncOperationPhaseInProgress)
				}
				if deleted {
					world.Delete(t, b)
					awaitGone(t, b)
					b = latest(b)
				} else {
					cancelBackup(t, b)
					b = outcome(t, b, v1alpha1.RunPhaseCancelled)
				}
				if b.Status.Phase != v1alpha1.RunPhaseCancelled {
					t.Errorf("the phase is %s: %s", b.Status.Phase, b.Status.Message)
				}
				counted(t, b, 3, 0, 0, 3)
				for _, o := range operationsOf(b) {
					await(t, o, "it is cancelled", inPhase(v1alpha1.AsyncOperationPhaseCancelled))
					if deleted {
						awaitGone(t, o)
					}
				}
				if n := cancels(t, b); n != 3 {
					t.Errorf("the plugin was asked %d times to cancel, want 3", n)
				}
				awaitPhase(t, b, v1alpha1.HookPostBackup, pair, v1alpha1.HookRunPhaseCompleted)
				s.nothingOf(t, b)
			})
		}
	})

	Context("reports a refused cancellation, and waits", func() {
		for program, said := range suite.SortedByName(map[string]string{
			"cancelfails":   "the plugin refused",
			"cancelignored": "the plugin has not confirmed the end yet",
		}) {
			It(program, func() {
				t := suite.Spec(GinkgoTB())
				s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 0)
				goOn, give := signal(t)
				operate(t, app, "one", program+";until:"+goOn)
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(operates)
				s.apply(t, b)
				o := operationIn(t, b, "one", v1alpha1.AsyncOperationPhaseInProgress)
				world.Patch(t, o, `{"spec":{"desiredState":"Cancel"}}`)
				operationOf(t, b, "one", said, func(o *v1alpha1.AsyncOperation) bool {
					return o.Status.Phase == v1alpha1.AsyncOperationPhaseCancelling && o.Status.Cancel.Answer != "" && contained(o.Status.Message, said)
				})
				give()
				outcome(t, b, v1alpha1.RunPhaseCompleted)
				o = operationIn(t, b, "one", v1alpha1.AsyncOperationPhaseCompleted)
				if !contained(o.Status.Message, "Completed after", "before it could be canceled") {
					t.Errorf("it ended so: %s", o.Status.Message)
				}
			})
		}
	})

	It("ends operations that cannot be canceled, and frees the slot", func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.StartOperator(t, "--item-operation-cancel-timeout=3s", "--max-concurrent-backups=1")}, world.CreateApp(t, 0)
		ends := map[string]string{
			"cancelfails":   "Failed CancelRefused",
			"cancelignored": "Failed CancelUnconfirmed",
			"cancelhangs":   "Failed CancelUnconfirmed",
		}
		for program := range ends {
			operate(t, app, program, "never;"+program)
		}
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(operates)
		s.apply(t, b)
		await(t, b, "it waits for operations", func(b *v1alpha1.Backup) bool { return b.Status.Phase == "WaitingForPluginOperations" })
		next := s.NewBackup(app)
		s.apply(t, next)
		outcome(t, next, v1alpha1.RunPhaseCompleted)
		for program := range ends {
			world.Patch(t, operationIn(t, b, program, v1alpha1.AsyncOperationPhaseInProgress), `{"spec":{"desiredState":"Cancel"}}`)
		}
		b = outcome(t, b, v1alpha1.RunPhasePartiallyFailed, "0 of 3 operations completed, 3 errors")
		counted(t, b, 3, 0, 3, 0)
		endedAs(t, b, ends)
		for program := range ends {
			says(t, s.results(t, b).Errors.OfNamespace(app), program, operates, "may still be running")
		}
	})
})

// nothingOf checks that no file of a Backup is in the store, but its logs and the claim,
// which lets its name go.
func (s site) nothingOf(t testing.TB, b *v1alpha1.Backup) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(s.LocationDir(env.DefaultLocation), "backups", b.Name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, file := range files {
		if kept := []string{"logs", "results", "claim"}; !slices.ContainsFunc(kept, func(name string) bool { return strings.Contains(file.Name(), name) }) {
			t.Errorf("%s is left in the store", file.Name())
		}
	}
}
