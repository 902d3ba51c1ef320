// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// thawing installs a Plugin with a pair whose second half runs when data is captured, with an action
// that starts operations, and with an action after the outcome. It returns their names.
func thawing(t testing.TB, name string) (freezes, operates, notifies string) {
	t.Helper()
	freezes, operates, notifies = "capture.example.io/"+name, "capture.example.io/"+name+"-operation", "capture.example.io/"+name+"-notify"
	actions := append(operating(operates, v1alpha1.OperationPolicy{}),
		v1alpha1.PluginAction{Name: freezes, Kind: v1alpha1.ActionKindPreBackup, Selector: env.SelectorForAction(freezes)},
		v1alpha1.PluginAction{
			Name: freezes, Kind: v1alpha1.ActionKindPostBackup, Selector: env.SelectorForAction(freezes), RunAfter: v1alpha1.RunAfterDataCaptured,
		},
		v1alpha1.PluginAction{Name: notifies, Kind: v1alpha1.ActionKindPostBackup, Selector: env.SelectorForAction(notifies)})
	install(t, world.NewFaultPlugin("capture-"+name, actions, "FAULT_OPERATIONS="+t.TempDir()))
	return freezes, operates, notifies
}

var _ = Describe("Captured data", Label("operations"), func() {
	It("lets an application go on while operations are in progress", func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 1)
		freezes, operates, notifies := thawing(t, "thaw")
		cut, cutNow := signal(t)
		end, endNow := signal(t)
		operate(t, app, "slow", "until:"+end+";captured:"+cut+";interval:100ms")
		operate(t, app, "fast", "steps:1;interval:100ms")
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(freezes, operates, notifies)
		s.apply(t, b)

		await(t, b, "it waits for data of one of two operations", func(b *v1alpha1.Backup) bool {
			c := b.Status.Operations
			return c != nil && c.Attempted == 2 && c.Completed == 1 && c.Capturing == 1
		})
		if run := runOf(t, b, v1alpha1.HookPostBackup, freezes); run.Spec.DesiredState != v1alpha1.HookDesiredStateWait {
			t.Errorf("the application goes on before its data is captured: %s", describe(run))
		}
		cutNow()
		thawed := await(t, b, "the application goes on", func(b *v1alpha1.Backup) bool {
			return conditionOf(b, v1alpha1.ConditionCleanupOwed) == "False"
		})
		if thawed.Status.Phase != v1alpha1.RunPhaseWaitingForPluginOperations || thawed.Status.Operations.Completed != 1 {
			t.Errorf("then, it is so: %s", describe(thawed))
		}
		o := operationOf(t, b, "slow", "its data is captured", func(o *v1alpha1.AsyncOperation) bool { return o.Status.DataCapturedTimestamp != nil })
		if o.Status.Phase != v1alpha1.AsyncOperationPhaseInProgress {
			t.Errorf("the operation is %s", describe(o))
		}
		endNow()
		b = outcome(t, b, v1alpha1.RunPhaseCompleted, "2 of 2 operations completed")
		env.CheckEqual(t, "calls", callsOf(t, b), []string{"PreBackup " + freezes + " #1", "PostBackup " + freezes + " #1", "PostBackup " + notifies + " #1"})
	})

	It("is not awaited by a canceled Backup", func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 1)
		freezes, operates, notifies := thawing(t, "cancel")
		end, endNow := signal(t)
		operate(t, app, "stuck", "until:"+end+";cancelignored;interval:100ms")
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(freezes, operates, notifies)
		s.apply(t, b)
		await(t, b, "it waits for the operation", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == v1alpha1.RunPhaseWaitingForPluginOperations
		})
		world.Patch(t, b, `{"spec":{"desiredState":"Cancel"}}`)
		thawed := await(t, b, "the application goes on", func(b *v1alpha1.Backup) bool {
			return conditionOf(b, v1alpha1.ConditionCleanupOwed) == "False"
		})
		if thawed.Status.CompletionTimestamp != nil {
			t.Errorf("it went on only after the outcome: %s", describe(thawed))
		}
		endNow()
		outcome(t, b, v1alpha1.RunPhaseCancelled)
	})

	It("is reported for each claim", func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 0)
		claim(t, app, "copied", "example.io/copy-data", "orders")
		claim(t, app, "left", "example.io/not-copied")
		b := outcome(t, s.apply(t, s.backupOfClaims(app)), v1alpha1.RunPhaseCompleted)
		if v := b.Status.Volumes; v == nil || *v != (v1alpha1.VolumeCounts{Claims: 2, Captured: 1, Skipped: 1}) || reasonOf(b, v1alpha1.ConditionDataCaptured) != "DataNotCaptured" {
			t.Errorf("it is not told that one claim has no data: %s", describe(b))
		}
		named := slices.ContainsFunc(b.Status.Problems, func(p v1alpha1.Problem) bool {
			return p.Reason == "DataNotCaptured" && p.Namespace == app && p.Name == "left" && p.Severity == v1alpha1.ProblemSeverityWarning
		})
		if !named || len(b.Status.Problems) != 1 {
			t.Errorf("problems %+v do not name the claim", b.Status.Problems)
		}

		b = s.backupOfClaims(app)
		b.Spec.ExcludedResources = nil
		b.Spec.IncludedResources = []v1alpha1.NamePattern{"persistentvolumeclaims"}
		b.Spec.LabelSelector = env.SelectorForAction("none")
		b.Spec.LabelSelector.MatchLabels = map[string]string{"example.io/copy-data": "true"}
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted)
		if conditionOf(b, v1alpha1.ConditionDataCaptured) != "True" || b.Status.Warnings > 0 {
			t.Errorf("all data is captured, and it is so: %s", describe(b))
		}
	})

	It("can be required before anything runs", func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 0)
		freezes, _, _ := thawing(t, "required")
		claim(t, app, "copied", "example.io/copy-data", "orders")
		b := s.backupOfClaims(app)
		b.Spec.Volumes = &v1alpha1.BackupVolumes{RequireCaptured: true}
		b.Labels = env.LabelsForActions(freezes)
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted)
		env.CheckEqual(t, "calls", callsOf(t, b), []string{"PreBackup " + freezes + " #1", "PostBackup " + freezes + " #1"})

		claim(t, app, "left", "example.io/not-copied")
		b = s.backupOfClaims(app)
		b.Spec.Volumes = &v1alpha1.BackupVolumes{RequireCaptured: true}
		b.Labels = env.LabelsForActions(freezes)
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseFailedValidation)
		if errs := strings.Join(b.Status.ValidationErrors, "; "); !contained(errs, "spec.volumes.requireCaptured", app+"/left", "no action captures the data") || strings.Contains(errs, "copied") {
			t.Errorf("the errors are %q", errs)
		}
		env.CheckEqual(t, "calls", callsOf(t, b), nil)
	})
})
