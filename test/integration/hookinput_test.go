// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The input and output of hooks", Label("hooks"), func() {
	Context("skips actions by annotation", func() {
		for name, c := range suite.SortedByName(map[string]struct {
			annotations map[string]string
			phase       v1alpha1.RunPhase
			message     string
			calls       []string
			event       string
		}{
			"a name without a slash": {
				annotations: map[string]string{"plain/prebackup": "skip"}, phase: v1alpha1.RunPhaseCompleted,
				calls: []string{"PreBackup " + pair + " #1", "PostBackup " + pair + " #1"},
				event: "Normal PlanRecorded: 1 PreBackup and 1 PostBackup actions are planned; PreBackup plain is skipped",
			},
			"a name with a slash": {
				annotations: map[string]string{pair + ".prebackup": "skip"}, phase: v1alpha1.RunPhaseCompleted,
				calls: []string{"PreBackup plain #1", "PostBackup plain #1"},
				event: "Normal PlanRecorded: 1 PreBackup and 1 PostBackup actions are planned; PreBackup " + pair + " is skipped",
			},
			"another value": {
				annotations: map[string]string{"plain/prebackup": "true"}, phase: v1alpha1.RunPhaseFailedValidation,
				message: `annotation plain/prebackup has the value "true"; the only value it may have is "skip"`,
				event:   "Warning FailedValidation: annotation plain/prebackup",
			},
			"an unknown action": {
				annotations: map[string]string{"plane/prebackup": "skip"}, phase: v1alpha1.RunPhaseCompleted,
				message: "1 warning",
				calls: []string{
					"PreBackup plain #1", "PreBackup " + pair + " #1", "PostBackup " + pair + " #1", "PostBackup plain #1",
				},
				event: "Warning PlanWarning: annotation plane/prebackup skips nothing",
			},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				b := s.NewBackup(app)
				b.Labels, b.Annotations = env.LabelsForActions(plain, pair), c.annotations
				s.apply(t, b)
				b = outcome(t, b, c.phase, c.message)
				env.CheckEqual(t, "calls", callsOf(t, b), c.calls)
				awaitEvent(t, b, c.event)
				if got := len(runsOf(b)); got != len(c.calls) {
					t.Errorf("there are %d HookRuns for %d calls", got, len(c.calls))
				}
			})
		}
	})

	It("calls an action again later", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(freeze)
		parameter(b, freeze, "again", "1")
		s.apply(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted)
		for _, point := range []v1alpha1.HookPoint{v1alpha1.HookPreBackup, v1alpha1.HookPostBackup} {
			run := await(t, runOf(t, b, point, freeze), "it is called again later", func(run *v1alpha1.HookRun) bool {
				return reasonOf(run, v1alpha1.ConditionSucceeded) == v1alpha1.ReasonCalledAgainLater
			})
			if run.Status.Message != "not done yet, 1 of 1" || run.Status.NextCallTimestamp == nil {
				t.Errorf("meanwhile the HookRun says %q", run.Status.Message)
			}
			if last := latest(run); last.Status.Attempt != 1 || last.Status.Phase != v1alpha1.HookRunPhaseCompleted {
				t.Errorf("the second call was no part of the first attempt: %s", describe(run))
			}
		}
	})

	It("passes outputs to the Post action and the manifest", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(pair, freeze)
		parameter(b, pair, "fault", "outputs")
		parameter(b, freeze, "replicas", "5")
		s.apply(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted)

		before, behind := runOf(t, b, v1alpha1.HookPreBackup, pair), runOf(t, b, v1alpha1.HookPostBackup, pair)
		if got := string(behind.Status.Outputs["pre"]); got != string(before.UID) {
			t.Errorf("the PostBackup action was told %q, want the key of the PreBackup action, %s", got, before.UID)
		}
		ctx := context.WithoutCancel(t.Context())
		_, manifest, err := s.open(ctx, t, b.Status.StorageLocation).ReadManifest(ctx, b.Name)
		Expect(err).NotTo(HaveOccurred())
		if manifest.Outputs[pair]["from"] != string(before.UID) || manifest.Outputs[freeze]["replicas"] != "5" {
			t.Errorf("the manifest has the outputs %v", manifest.Outputs)
		}
		says(t, []string{s.file(t, b, storage.PostLogs)}, "Thawed the application", string(runOf(t, b, v1alpha1.HookPreBackup, freeze).UID))
	})

	It("warns about parameters that no action has", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		parameter(b, "example.io/freese", "replicas", "5")
		s.apply(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted, "1 warning")
		says(t, messages(s.results(t, b).Warnings), `spec.parameters names "example.io/freese", which no Plugin provides`)
	})

	It("stores the logs of actions", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(pair, notify)
		parameter(b, pair, "fault", "log:3")
		s.apply(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted)
		before := "line 2 of " + string(runOf(t, b, v1alpha1.HookPreBackup, pair).UID)
		behind := "line 2 of " + string(runOf(t, b, v1alpha1.HookPostBackup, pair).UID)
		log, postLog := s.file(t, b, storage.Logs), s.file(t, b, storage.PostLogs)
		for _, c := range []struct {
			where, log, text string
			has              bool
		}{
			{"log", log, before, true},
			{"log", log, behind, false},
			{"log", log, "Archiving objects", true},
			{"log of the PostBackup actions", postLog, before, false},
			{"log of the PostBackup actions", postLog, behind, true},
			{"log of the PostBackup actions", postLog, "Backup ended", true},
		} {
			if strings.Contains(c.log, c.text) != c.has {
				t.Errorf("that the %s contains %q is %v:\n%s", c.where, c.text, !c.has, c.log)
			}
		}
		files := b.Status.Files
		if files == nil || files.Log == "" || files.PostLog == "" || files.Results == "" || files.Archive == "" {
			t.Errorf("the status names the files %+v", files)
		}
	})
})
