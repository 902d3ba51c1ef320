// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// deletes declares a DeleteAction for Backups that ask for it.
func deletes(action v1alpha1.PluginAction) v1alpha1.PluginAction {
	action.Kind, action.Selector = v1alpha1.ActionKindDelete, env.SelectorForAction(action.Name)
	return action
}

// deleteCalls returns the calls of DeleteActions for a DeletionRun.
func deleteCalls(t testing.TB, d *v1alpha1.DeletionRun) []string {
	t.Helper()
	var keys []string
	for _, run := range all[*v1alpha1.HookRun](world.watched) {
		if run.Spec.ParentRef.UID == string(d.UID) {
			keys = append(keys, string(run.UID))
		}
	}
	return world.FaultPluginCalls(t, func(key string) bool { return slices.Contains(keys, key) })
}

var _ = Describe("The actions of a deletion", Label("deletion"), func() {
	It("runs every DeleteAction that concerns the Backup", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		a, z, other := own(t, "a-fails"), own(t, "z-works"), own(t, "other")
		install(t, world.NewFaultPlugin(filepath.Base(a), []v1alpha1.PluginAction{
			deletes(v1alpha1.PluginAction{Name: z}), deletes(v1alpha1.PluginAction{Name: a}), deletes(v1alpha1.PluginAction{Name: other}),
		}, "FAULT_SELECTOR=tier=gold"))
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(a, z)
		b.Labels["tier"] = "gold"
		parameter(b, a, "fault", "fail")
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		d := destroyed(t, destroy(t, b), v1alpha1.RunPhasePartiallyFailed, "Backup "+b.Name+" is destroyed, and one thing is left behind", a)
		s.gone(t, b)
		// The example plugin has one that concerns every Backup.
		env.CheckEqual(t, "the actions", env.FormatActionStatuses(d.Status.DeleteActionsStatuses), []string{exampleCopy + " Completed", a + " Failed", z + " Completed"})
		env.CheckEqual(t, "the calls", deleteCalls(t, d), []string{"Delete " + a + " #1", "Delete " + a + " #2", "Delete " + a + " #3", "Delete " + z + " #1"})
		awaitEvent(t, d, "Warning PartiallyFailed: ")
	})

	Context("lets an action choose the Backups that concern it", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			selector string
			phase    v1alpha1.RunPhase
			called   int
			text     string
		}{
			"it concerns others": {"tier=silver", v1alpha1.RunPhaseCompleted, 0, "is destroyed"},
			"it concerns all":    {"", v1alpha1.RunPhaseCompleted, 1, "is destroyed"},
			"it does not know":   {"fault:panic", v1alpha1.RunPhasePartiallyFailed, 0, "could not report whether it applies to the backup"},
			"it does not answer": {"fault:hang", v1alpha1.RunPhasePartiallyFailed, 0, "could not report whether it applies to the backup"},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				action := own(t, "chooses")
				install(t, world.NewFaultPlugin(filepath.Base(action),
					[]v1alpha1.PluginAction{deletes(v1alpha1.PluginAction{Name: action, Timeout: within(2 * time.Second)})}, "FAULT_SELECTOR="+tc.selector))
				b := s.NewBackup(world.CreateApp(t, 1))
				b.Labels = env.LabelsForActions(action)
				b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
				d := destroyed(t, destroy(t, b), tc.phase, tc.text)
				s.gone(t, b)
				if calls := deleteCalls(t, d); len(calls) != tc.called {
					t.Errorf("the calls are %q", calls)
				}
			})
		}
	})

	It("calls DeleteItemActions with the archived objects", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action := own(t, "cleans")
		cleaned := filepath.Join(t.TempDir(), "cleaned")
		install(t, world.NewFaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{
			{Name: action, Kind: v1alpha1.ActionKindDeleteItem, Selector: env.SelectorForAction(action)},
		}, "FAULT_CLEANED="+cleaned))
		app := world.CreateApp(t, 2)
		for i, fault := range map[int]string{6: "panic:something is nil", 7: "error:the snapshot is locked"} {
			bad := env.NewConfigMap(app, i)
			bad.Annotations = map[string]string{"fault.example.io/clean": fault}
			env.Create(t, world.Client, bad)
		}
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		d := destroyed(t, destroy(t, b), v1alpha1.RunPhasePartiallyFailed, "2 things are left behind", app+"/c6", "panic", app+"/c7", "the snapshot is locked")
		s.gone(t, b)
		line := func(name string) string { return action + " " + app + "/" + name }
		got := strings.Split(strings.TrimSpace(content(t, cleaned)), "\n")
		got = slices.DeleteFunc(got, func(l string) bool { return strings.HasSuffix(l, "/kube-root-ca.crt") })
		env.CheckEqual(t, "what was shown", got, []string{line("c0"), line("c1"), line("c6"), line("c7"), line("c6"), line("c7"), line("c6"), line("c7")})
		did := slices.DeleteFunc(d.Status.DeleteItemActions, func(did v1alpha1.DeletionItemAction) bool { return did.ActionName != action })
		if len(did) != 1 || did[0].Failed != 2 || did[0].Items < 2 {
			t.Errorf("the actions are told as %+v", d.Status.DeleteItemActions)
		}
	})

	// The action does not notice that its caller no longer waits, so its plugin is started again
	// each time.
	It("survives a DeleteItemAction that hangs", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action := own(t, "hangs")
		install(t, world.NewFaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{
			{Name: action, Kind: v1alpha1.ActionKindDeleteItem, Selector: env.SelectorForAction(action), Timeout: within(2 * time.Second)},
		}, "FAULT_CLEANED="+filepath.Join(t.TempDir(), "cleaned")))
		app := world.CreateApp(t, 1)
		last := env.NewConfigMap(app, 1)
		last.Name, last.Annotations = "z", map[string]string{"fault.example.io/clean": "hang"}
		env.Create(t, world.Client, last)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		d := destroyed(t, destroy(t, b), v1alpha1.RunPhasePartiallyFailed,
			"one thing is left behind", action, app+"/z", "did not answer before its deadline")
		s.gone(t, b)
		for _, did := range d.Status.DeleteItemActions {
			if did.ActionName == action && (did.Failed != 1 || did.Items < 1) {
				t.Errorf("the action is reported as %+v", did)
			}
		}
	})

	Context("continues when a DeleteAction crashes or times out", func() {
		for fault, text := range suite.SortedByName(map[string]string{"hang": "did not answer before its deadline", "panic": "panic", "kill": "the plugin"}) {
			It(fault, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				bad, good := own(t, "a-bad"), own(t, "z-good")
				for action, does := range map[string]string{bad: fault, good: "none"} {
					timeout := within(time.Minute)
					if action == bad {
						timeout = within(2 * time.Second)
					}
					install(t, world.NewFaultPlugin(filepath.Base(action),
						[]v1alpha1.PluginAction{deletes(v1alpha1.PluginAction{Name: action, Timeout: timeout})}, "FAULT_CALL="+does))
				}
				b := s.NewBackup(world.CreateApp(t, 1))
				b.Labels = env.LabelsForActions(bad, good)
				b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
				d := destroyed(t, destroy(t, b), v1alpha1.RunPhasePartiallyFailed, "one thing is left behind", bad)
				s.gone(t, b)
				env.CheckEqual(t, "the actions", env.FormatActionStatuses(d.Status.DeleteActionsStatuses), []string{exampleCopy + " Completed", bad + " Failed", good + " Completed"})
				says(t, d.Status.LeftBehind, bad, text)
			})
		}
	})

	It("keeps the Backup as long as actions need it", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action, late, items := own(t, "a-held"), own(t, "b-late"), own(t, "items")
		cleaned, goOn := filepath.Join(t.TempDir(), "cleaned"), filepath.Join(t.TempDir(), "go-on")
		install(t, world.NewFaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{
			deletes(v1alpha1.PluginAction{Name: action}), deletes(v1alpha1.PluginAction{Name: late}),
			{Name: items, Kind: v1alpha1.ActionKindDeleteItem, Selector: env.SelectorForAction(items)},
		}, "FAULT_CALL=until:"+goOn, "FAULT_CLEANED="+cleaned))
		t.Cleanup(func() { touch(t, goOn) })
		app := world.CreateApp(t, 1)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action, late, items)
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		d := destroy(t, b)
		awaitCalled(t, d, action)
		world.Delete(t, b)
		await(t, b, "it is deleted", func(b *v1alpha1.Backup) bool { return !b.DeletionTimestamp.IsZero() })
		touch(t, goOn)
		d = destroyed(t, d, v1alpha1.RunPhaseCompleted)
		s.gone(t, b)
		env.CheckEqual(t, "the actions", env.FormatActionStatuses(d.Status.DeleteActionsStatuses), []string{exampleCopy + " Completed", action + " Completed", late + " Completed"})
		says(t, []string{content(t, cleaned)}, items+" "+app+"/c0")
	})
})
