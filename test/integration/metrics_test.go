// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Metrics", Label("hooks"), func() {
	It("counts runs, actions and objects", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		app := world.CreateApp(t, 2)

		completed := s.NewBackup(app)
		completed.Labels = env.LabelsForActions(pair)
		completed.Labels[v1alpha1.LabelScheduleName] = "nightly"
		completed = outcome(t, s.apply(t, completed), v1alpha1.RunPhaseCompleted)
		failed := s.NewBackup(app)
		failed.Labels = env.LabelsForActions(preFails)
		outcome(t, s.apply(t, failed), v1alpha1.RunPhaseFailedPreBackupActions)
		invalid := s.NewBackup(app)
		invalid.Spec.ExcludedNamespaces = invalid.Spec.IncludedNamespaces
		outcome(t, s.apply(t, invalid), v1alpha1.RunPhaseFailedValidation)
		stopped := s.NewBackup(app)
		stopped.Labels = env.LabelsForActions(preHolds)
		s.apply(t, stopped)
		awaitCall(t, stopped, v1alpha1.HookPreBackup, preHolds)
		s.WaitForMetric(t, fmt.Sprintf(`grapnel_backup_cleanup_owed{backup=%q,namespace=%q,overdue="false"}`, stopped.Name, s.Name), 1)
		cancelBackup(t, stopped)
		outcome(t, stopped, v1alpha1.RunPhaseCancelled)

		items := float64(completed.Status.Progress.ItemsBackedUp)
		for name, want := range map[string]float64{
			`grapnel_backup_attempt_total{schedule="nightly"}`:                                                       1,
			`grapnel_backup_attempt_total{schedule=""}`:                                                              2,
			`grapnel_backup_success_total{schedule="nightly"}`:                                                       1,
			`grapnel_backup_success_total{schedule=""}`:                                                              env.MetricAbsent,
			`grapnel_backup_failure_total{schedule=""}`:                                                              1,
			`grapnel_backup_validation_failure_total{schedule=""}`:                                                   1,
			`grapnel_backup_cancelled_total{schedule=""}`:                                                            1,
			`grapnel_backup_partial_failure_total{schedule=""}`:                                                      env.MetricAbsent,
			`grapnel_backup_items_total{schedule="nightly"}`:                                                         items,
			`grapnel_backup_duration_seconds_count{schedule="nightly"}`:                                              1,
			`grapnel_backup_duration_seconds_count{schedule=""}`:                                                     2,
			`grapnel_backup_last_successful_timestamp{schedule="nightly"}`:                                           float64(completed.Status.StartTimestamp.Unix()),
			`grapnel_backup_total{phase="Completed"}`:                                                                1,
			`grapnel_backup_total{phase="FailedPreBackupActions"}`:                                                   1,
			`grapnel_backup_total{phase="FailedValidation"}`:                                                         1,
			`grapnel_backup_total{phase="Cancelled"}`:                                                                1,
			fmt.Sprintf(`grapnel_hook_runs_total{action=%q,point="PreBackup",result="Completed"}`, pair):             1,
			fmt.Sprintf(`grapnel_hook_runs_total{action=%q,point="PostBackup",result="Completed"}`, pair):            1,
			fmt.Sprintf(`grapnel_hook_runs_total{action=%q,point="PreBackup",result="Failed"}`, preFails):            1,
			fmt.Sprintf(`grapnel_hook_runs_total{action=%q,point="PreBackup",result="Cancelled"}`, preHolds):         1,
			fmt.Sprintf(`grapnel_hook_runs_total{action=%q,point="PostBackup",result="Completed"}`, preHolds):        1,
			fmt.Sprintf(`grapnel_backup_cleanup_owed{backup=%q,namespace=%q,overdue="false"}`, stopped.Name, s.Name): env.MetricAbsent,
		} {
			s.WaitForMetric(t, name, want)
		}
		if size := s.ScrapeMetrics(t)[`grapnel_backup_tarball_size_bytes{schedule="nightly"}`]; size <= 0 {
			t.Errorf("the archive has %v bytes", size)
		}
	})

	It("reports overdue clean-up", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		b, _, _ := brokenCleanup(t, s)
		name := fmt.Sprintf(`grapnel_backup_cleanup_owed{backup=%q,namespace=%q,overdue="true"}`, b.Name, s.Name)
		s.WaitForMetric(t, name, 1)
		world.Patch(t, b, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationAbandonCleanup+`":"true"}}}`)
		outcome(t, b, v1alpha1.RunPhaseCompleted)
		s.WaitForMetric(t, name, env.MetricAbsent)
	})
})
