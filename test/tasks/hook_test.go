// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Hooks", Ordered, func() {
	const report, freeze = "example.io/report", "example.io/freeze"

	// fault returns a Plugin whose PostBackup action fails until it is repaired.
	fault := func(name, action string, kinds ...v1alpha1.ActionKind) *v1alpha1.Plugin {
		var actions []v1alpha1.PluginAction
		for _, kind := range kinds {
			actions = append(actions, v1alpha1.PluginAction{Name: action, Kind: kind, Selector: env.SelectorForAction(action)})
		}
		return world.NewFaultPlugin(name, actions, "FAULT_CALL=PostBackup=error")
	}
	reporter := fault("reporter", report, v1alpha1.ActionKindPostBackup)
	freezer := fault("freezer", freeze, v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPostBackup)

	BeforeAll(func() {
		t := suite.Spec(GinkgoTB())
		reporter, freezer = fault("reporter", report, v1alpha1.ActionKindPostBackup),
			fault("freezer", freeze, v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPostBackup)
		env.Create(t, world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "books"}})
		env.Create(t, world.Client, reporter)
		env.Create(t, world.Client, freezer)
		world.WaitForPlugins(t, reporter, freezer)
	})
	AfterAll(func(ctx context.Context) {
		for _, name := range []string{"reported", "frozen"} {
			task(ctx, backupOperator, 0, "backup delete "+name+" --confirm --wait --timeout 1m")
		}
	})

	// hookRunOf returns the name of the PostBackup HookRun of a Backup; empty if it does not exist yet.
	hookRunOf := func(ctx context.Context, backup string) string {
		GinkgoHelper()
		out := task(ctx, viewer, 0, "hook get -l grapnel.dev/backup-name="+backup)
		for line := range strings.Lines(out) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[1] == string(v1alpha1.HookPostBackup) {
				return fields[0]
			}
		}
		return ""
	}
	getBackup := func(ctx context.Context, name string) *v1alpha1.Backup {
		GinkgoHelper()
		b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(b), b)).To(Succeed())
		return b
	}
	reasonOf := func(b *v1alpha1.Backup, condition string) string {
		if c := conditions.Get(b, condition); c != nil {
			return c.Reason
		}
		return ""
	}
	// eventually checks a Backup until it is as wanted.
	eventually := func(ctx context.Context, name, condition, reason string) *v1alpha1.Backup {
		GinkgoHelper()
		var b *v1alpha1.Backup
		Eventually(ctx, func() string { b = getBackup(ctx, name); return reasonOf(b, condition) }).WithTimeout(patience).Should(Equal(reason))
		return b
	}

	It("retries a PostBackup action after its server is repaired", func(ctx context.Context) {
		t := suite.Spec(GinkgoTB())
		task(ctx, backupOperator, 0, "backup create reported --include-namespaces books --labels use-report=yes --wait --timeout 1m")
		Expect(eventually(ctx, "reported", v1alpha1.ConditionPostActionsSucceeded, v1alpha1.ReasonPostActionFailed).Status.Message).
			To(ContainSubstring("PostBackup action failed"))
		name := hookRunOf(ctx, "reported")
		Expect(task(ctx, viewer, 0, "backup describe reported")).To(ContainSubstring("kubectl grapnel hook retry " + name))

		By("refusing a viewer", func() {
			o := grapnel(ctx, viewer, "", "hook", "retry", name, "--reason", "curious")
			Expect(o.code).To(Equal(1))
			Expect(o.err).To(And(ContainSubstring("forbidden"), ContainSubstring("one of the roles")))
		})
		By("retrying it too early", func() {
			Expect(task(ctx, backupOperator, 0, "hook retry "+name+" --reason early")).To(ContainSubstring("as user " + backupOperator))
			Eventually(ctx, func() string { return task(ctx, viewer, 0, "hook get "+name) }).WithTimeout(patience).Should(MatchRegexp(`Failed +2 `))
		})

		updated := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: reporter.Name}}
		variables := slices.Clone(reporter.Spec.Executor.Process.Env)
		variables[len(variables)-1].Value = "none"
		Expect(world.Client.Get(ctx, client.ObjectKeyFromObject(updated), updated)).To(Succeed())
		updated.Spec.Executor.Process.Env = variables
		Expect(world.Client.Update(ctx, updated)).To(Succeed())
		env.WaitFor(t, world.Client, updated, "it is loaded again", func(p *v1alpha1.Plugin) bool {
			return p.Status.ObservedGeneration == updated.Generation && conditions.IsTrue(p, v1alpha1.ConditionReady)
		})

		Expect(showTask(ctx, 23, "run a failed hook again", backupOperator, 0, "hook retry HOOKRUN --reason repaired", name)).To(ContainSubstring("Requested to retry PostBackup action example.io/report of Backup reported as user " + backupOperator))
		b := eventually(ctx, "reported", v1alpha1.ConditionPostActionsSucceeded, v1alpha1.ReasonPostActionsSucceeded)
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted))
		Expect(b.Status.Message).NotTo(ContainSubstring("failed"))
		Expect(env.FormatActionStatuses(b.Status.PostBackupActionsStatuses)).To(HaveExactElements(ContainSubstring("Completed")))
		Expect(task(ctx, viewer, 0, "backup describe reported")).To(And(
			ContainSubstring("example.io/report: Completed"), ContainSubstring("Retried by "+backupOperator+": repaired"),
			Not(ContainSubstring("hook retry"))))

		By("refusing another retry", func() {
			o := grapnel(ctx, backupOperator, "", "hook", "retry", name, "--reason", "once more")
			Expect(o.code).To(Equal(1))
			Expect(o.err).To(ContainSubstring("cannot retry HookRun " + name + ": it is Completed; only failed actions can be retried"))
		})
	})

	It("skips clean-up that keeps failing, with who and why", func(ctx context.Context) {
		task(ctx, backupOperator, 0, "backup create frozen --include-namespaces books --labels use-freeze=yes")
		name := ""
		Eventually(ctx, func(g Gomega) {
			name = hookRunOf(ctx, "frozen")
			g.Expect(name).NotTo(BeEmpty())
			g.Expect(task(ctx, viewer, 0, "hook get "+name)).To(ContainSubstring("will be retried"))
		}).WithTimeout(patience).Should(Succeed())
		const who = "Skipped by " + backupOperator + ": dropped"
		Expect(grapnel(ctx, restoreOperator, "", "hook", "skip", name, "--reason", "dropped").err).
			To(ContainSubstring("this HookRun is owed clean-up: to skip it, you need the right to patch Backup frozen"))
		Expect(showTask(ctx, 24, "give up a hook that keeps failing", backupOperator, 0, "hook skip HOOKRUN --reason dropped", name)).To(ContainSubstring(fmt.Sprintf("HookRun %s: Skipped (%s)", name, who)))
		b := eventually(ctx, "frozen", v1alpha1.ConditionCleanupOwed, v1alpha1.ReasonCleanupAbandoned)
		Expect(conditions.Get(b, v1alpha1.ConditionCleanupOwed).Message).To(ContainSubstring(who))
		eventually(ctx, "frozen", v1alpha1.ConditionReconciling, v1alpha1.ReasonCompleted)
		Expect(task(ctx, viewer, 0, "backup describe frozen")).To(ContainSubstring(who))
	})

	It("suggests the names of HookRuns", func(ctx context.Context) {
		name := hookRunOf(ctx, "reported")
		o := grapnel(ctx, backupOperator, "", "hook", "skip", name[:len(name)-1], "--reason", "x")
		Expect(o.code).To(Equal(1))
		Expect(o.err).To(ContainSubstring("did you mean " + name))
	})
})
