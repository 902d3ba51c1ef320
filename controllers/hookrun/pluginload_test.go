// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("A HookRun whose plugin is not loaded", Label("hooks"), func() {
	It("waits until the operator has loaded its plugin", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		backup := createBackup(env)
		name := env.Namespace // Plugins are not namespaced
		suite.Create(env, &v1alpha1.Plugin{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.PluginSpec{Executor: v1alpha1.Executor{Process: &v1alpha1.ProcessExecutor{Command: "example"}}},
		})
		ofPlugin := func(run *v1alpha1.HookRun) { run.Spec.PluginRef.Name = name }
		run, cancelled, orphan := plan(env, backup, ofPlugin), plan(env, backup, ofPlugin), plan(env, backup)
		unwanted := plan(env, backup, ofPlugin)
		do := working()
		do.plugin, do.loading = name, make(chan struct{})
		operator(t, env, do)

		// These do not wait: one is canceled, one is skipped, and one has no Plugin.
		request(env, unwanted, "1", v1alpha1.HookInterventionSkip)
		waitForPhase(env, unwanted, v1alpha1.HookRunPhaseSkipped)
		suite.UpdateWithRetry(env, cancelled, desire(v1alpha1.HookDesiredStateCancel))
		waitForPhase(env, cancelled, v1alpha1.HookRunPhaseSkipped)
		waitForPhase(env, orphan, v1alpha1.HookRunPhaseFailed)
		suite.GetIfExists(env, run)
		if run.Status.Attempt != 0 {
			t.Errorf("the HookRun started before its plugin was loaded: %+v", run.Status)
		}
		close(do.loading)
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		if diff := cmp.Diff([]int32{1}, do.made()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
})
