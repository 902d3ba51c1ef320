// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// waitsForPlugin reports whether a run waits for a Plugin that is not ready, and names it.
func waitsForPlugin(run lifecycle.Object, plugin string) bool {
	c := conditions.Get(run, v1alpha1.ConditionSucceeded)
	return c != nil && c.Reason == v1alpha1.ReasonWaitingForPlugins && strings.Contains(c.Message, "Plugin "+plugin+" is not ready")
}

var _ = Describe("A Plugin whose process crashes repeatedly", func() {
	const action = "example.io/crashing"
	var (
		s                *env.Namespace
		plugin           *v1alpha1.Plugin
		app              string
		program, cleaned string
	)
	// begin starts an operator and the Plugin, whose program only it has: the specs kill all of
	// its processes.
	begin := func(args ...string) {
		GinkgoHelper()
		t := GinkgoTB()
		s = world.StartOperator(t, args...)
		program, cleaned = filepath.Join(s.Dir, "plugins", "crashing"), filepath.Join(t.TempDir(), "cleaned")
		Expect(os.Link(filepath.Join(s.Dir, "plugins", "fault"), program)).To(Succeed())
		var actions []v1alpha1.PluginAction
		for _, kind := range []v1alpha1.ActionKind{v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPreRestore, v1alpha1.ActionKindDeleteItem} {
			actions = append(actions, v1alpha1.PluginAction{Kind: kind, Name: action, Selector: env.SelectorForAction(action)})
		}
		plugin = world.NewFaultPlugin("crashing", actions, "FAULT_CLEANED="+cleaned)
		plugin.Spec.Executor.Process.Command = "crashing"
		plugin = env.Create(t, world.Client, plugin)
		ctx := context.WithoutCancel(t.Context())
		t.Cleanup(func() {
			Expect(world.Client.Delete(ctx, plugin)).To(Succeed())
			Eventually(func() error { return world.Client.Get(ctx, client.ObjectKeyFromObject(plugin), &v1alpha1.Plugin{}) }).ShouldNot(Succeed())
		})
		world.WaitForPlugins(t, plugin)
		app = world.CreateApp(t, 1)
	}
	newBackup := func() *v1alpha1.Backup {
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		return b
	}
	// backUp creates a Backup and waits until it has completed.
	backUp := func() *v1alpha1.Backup {
		GinkgoHelper()
		return env.WaitFor(GinkgoTB(), world.Client, env.Create(GinkgoTB(), world.Client, newBackup()), "it has completed", func(b *v1alpha1.Backup) bool {
			return lifecycle.IsFinalized(b) && b.Status.Phase == v1alpha1.RunPhaseCompleted
		})
	}
	// crash kills the processes of the Plugin.
	crash := func() {
		GinkgoHelper()
		for _, process := range plugintesting.FindProcesses(program) {
			pid, err := strconv.Atoi(strings.Fields(process)[0])
			Expect(err).NotTo(HaveOccurred())
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
	crashUntil := func(what string, done func() bool) {
		GinkgoHelper()
		Eventually(func() bool {
			crash()
			return done()
		}).Should(BeTrue(), what)
	}
	read := func(object client.Object) {
		GinkgoHelper()
		Expect(world.Client.Get(GinkgoTB().Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	}
	isStalled := func() bool {
		read(plugin)
		return conditions.IsTrue(plugin, v1alpha1.ConditionStalled)
	}

	It("is awaited by runs of all kinds, which then call it", func() {
		t := GinkgoTB()
		begin("--admission-grace=5m")
		old, kept := backUp(), backUp()
		crashUntil("the Plugin is in the back-off", isStalled)

		meta := metav1.ObjectMeta{Namespace: s.Name, GenerateName: "awaiting-", Labels: env.LabelsForActions(action)}
		b := newBackup()
		r := &v1alpha1.Restore{ObjectMeta: meta, Spec: v1alpha1.RestoreSpec{BackupName: kept.Name}}
		d := &v1alpha1.DeletionRun{ObjectMeta: meta, Spec: v1alpha1.DeletionRunSpec{BackupName: old.Name}}
		runs := []lifecycle.Object{d, b, r}
		for _, run := range runs {
			env.Create(t, world.Client, client.Object(run))
			crashUntil(run.GetName()+" waits", func() bool {
				read(run)
				return waitsForPlugin(run, "crashing")
			})
		}
		for _, run := range runs {
			Eventually(func() bool {
				read(run)
				return lifecycle.IsFinished(run)
			}).Should(BeTrue())
			Expect(run.GetPhase()).To(Equal(v1alpha1.RunPhaseCompleted), run.Run().Message)
		}
		Expect(d.Status.LeftBehind).To(BeEmpty())
		calls, err := os.ReadFile(cleaned)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(calls)).To(ContainSubstring(action + " " + app + "/c0"))
		Expect(*b.Status.PreBackupActionsStatuses).To(HaveLen(1))
		Expect(*r.Status.PreRestoreActionsStatuses).To(HaveLen(1))
	})

	It("does not hold up a DeletionRun forever", func() {
		t := GinkgoTB()
		begin("--admission-grace=3s")
		old := backUp()
		Expect(os.Remove(program)).To(Succeed())
		crashUntil("the Plugin cannot be loaded", isStalled)

		d := env.Create(t, world.Client, &v1alpha1.DeletionRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "giving-up-"}, Spec: v1alpha1.DeletionRunSpec{BackupName: old.Name},
		})
		began := time.Now()
		d = env.WaitFor(t, world.Client, d, "it waits", func(d *v1alpha1.DeletionRun) bool { return waitsForPlugin(d, "crashing") })
		d = env.WaitFor(t, world.Client, d, "it has ended", func(d *v1alpha1.DeletionRun) bool { return lifecycle.IsFinished(d) })
		Expect(time.Since(began)).To(BeNumerically(">=", 2*time.Second))
		Expect(d.Status.Phase).To(Equal(v1alpha1.RunPhasePartiallyFailed), d.Status.Message)
		Expect(d.Status.LeftBehind).To(ConsistOf(And(
			ContainSubstring("DeleteItem action "+action+" cannot be called: Plugin crashing is not ready"),
			HaveSuffix("delete by hand what it would have deleted"),
		)))
	})
})
