// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/plugin"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

func sorted(texts []string) []string {
	slices.Sort(texts)
	return texts
}

var _ = Describe("The deletion of a Plugin", Label("plugins"), func() {
	It("reconcile delete", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		plugins := &loader{load: well}
		operator(t, env, plugins)
		p := create(t, env)
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		env.Delete(p)
		env.WaitForDeletion(p)
		if !plugins.unloaded() {
			t.Errorf("the Plugin was removed but not unloaded: %q", plugins.events)
		}
		again := create(t, env, func(again *v1alpha1.Plugin) { again.Name, again.GenerateName = p.Name, "" })
		await(env, again, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		if plugins.unloaded() {
			t.Errorf("the new Plugin was unloaded: %q", plugins.events)
		}
	})

	It("waits for owed clean-up", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		first := &loader{load: well}
		var cached client.Client
		stop := operator(t, env, first, func(r *plugin.Reconciler) { cached = r.Client })
		p := create(t, env)
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		run, other := user(env, p), user(env, p)
		awaitKnown(t, cached, run)
		awaitKnown(t, cached, other)
		env.Delete(p)
		awaitInUse(env, p, run, other)
		stop()

		second := &loader{load: well}
		exited := make(chan string)
		operator(t, env, second, func(r *plugin.Reconciler) { r.ProcessExits = exited })
		second.awaitLoads(t, 1)
		exited <- p.Name
		second.awaitLoads(t, 2)
		awaitInUse(env, p, run, other)
		end(t, env, other)
		awaitInUse(env, p, run)
		end(t, env, run)
		env.WaitForDeletion(p)
		if first.unloaded() || !second.unloaded() {
			t.Errorf("unloaded while in use: %v, unloaded in the end: %v", first.unloaded(), second.unloaded())
		}
	})

	It("waits until the Job of an action is removed", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		var cached client.Client
		operator(t, env, &loader{load: well}, func(r *plugin.Reconciler) { cached = r.Client })
		p := create(t, env)
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		run := user(env, p)
		run.Status.Removing = true
		end(t, env, run)
		suite.Eventually(t, func() string {
			var known v1alpha1.HookRun
			if err := cached.Get(t.Context(), client.ObjectKeyFromObject(run), &known); err != nil || !known.Status.Removing {
				return fmt.Sprintf("the operator does not know the HookRun: %v", err)
			}
			return ""
		})
		env.Delete(p)
		awaitInUse(env, p, run)
		run.Status.Removing = false
		end(t, env, run)
		env.WaitForDeletion(p)
	})

	It("ends when the runs that need it are abandoned", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		plugins := &loader{load: badly}
		var cached client.Client
		operator(t, env, plugins, func(r *plugin.Reconciler) { cached = r.Client })
		p := create(t, env)
		run := user(env, p)
		awaitKnown(t, cached, run)
		await(env, p, metav1.ConditionFalse, "BinaryNotFound")
		env.Delete(p)
		awaitInUse(env, p, run)
		suite.UpdateWithRetry(env, p, func(p *v1alpha1.Plugin) {
			p.Annotations = map[string]string{v1alpha1.AnnotationAbandonCleanup: "true"}
		})
		env.WaitForDeletion(p)
	})

	It("waits for a Backup that planned its item action", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		plugins := &loader{load: well}
		var cached client.Client
		operator(t, env, plugins, func(r *plugin.Reconciler) { cached = r.Client })
		p := create(t, env)
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		b := suite.Create(env, &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{GenerateName: "nightly-"}})
		b.Status.ItemActions = []v1alpha1.PlannedItemAction{{Name: "example.io/item", Plugin: p.Name}}
		if err := env.Client.Status().Update(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		suite.Eventually(t, func() string {
			var known v1alpha1.Backup
			if err := cached.Get(t.Context(), client.ObjectKeyFromObject(b), &known); err != nil {
				return err.Error()
			}
			if len(known.Status.ItemActions) == 0 {
				return "the operator does not know the plan of the Backup"
			}
			return ""
		})
		env.Delete(p)
		suite.WaitFor(env, p, func(p *v1alpha1.Plugin) string {
			if want := "needed by 1 runs, for example Backup " + b.Name; !strings.Contains(p.Status.Message, want) {
				return fmt.Sprintf("message %q, want %q", p.Status.Message, want)
			}
			return ""
		})
		now := metav1.Now()
		b.Status.CompletionTimestamp = &now
		if err := env.Client.Status().Update(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		env.WaitForDeletion(p)
	})
})

// awaitKnown waits until the cache of the operator contains a run.
func awaitKnown(t testing.TB, cached client.Client, run *v1alpha1.HookRun) {
	t.Helper()
	suite.Eventually(t, func() string {
		if err := cached.Get(t.Context(), client.ObjectKeyFromObject(run), &v1alpha1.HookRun{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// awaitInUse waits until a deleted Plugin reports that runs need it.
func awaitInUse(env *suite.Env, p *v1alpha1.Plugin, runs ...*v1alpha1.HookRun) {
	var names []string
	for _, run := range runs {
		names = append(names, "HookRun "+run.Name)
	}
	message := fmt.Sprintf("The Plugin is being deleted and still needed by %d runs, for example %s; annotate it with grapnel.dev/abandon-cleanup=true to abandon them and their owed clean-up",
		len(runs), slices.Min(names))
	suite.WaitFor(env, p, func(p *v1alpha1.Plugin) string {
		c := conditions.Get(p, v1alpha1.ConditionReconciling)
		if c == nil || c.Reason != v1alpha1.ReasonInUse || p.Status.Message != message {
			return fmt.Sprintf("Reconciling is %+v, message %q", c, p.Status.Message)
		}
		return ""
	})
}
