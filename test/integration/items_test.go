// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// onItems declares an action on objects that only Backups with its label have.
func onItems(action string) []v1alpha1.PluginAction {
	return []v1alpha1.PluginAction{{
		Name: action, Kind: v1alpha1.ActionKindBackupItem, Selector: env.SelectorForAction(action),
	}}
}

// asking creates a ConfigMap that asks the actions of test/faultplugin to do something.
func asking(t testing.TB, namespace, name, do string) {
	t.Helper()
	env.Create(t, world.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"app": "shop"},
		Annotations: map[string]string{"fault.example.io/do": do},
	}})
}

var _ = Describe("Item actions", Label("plugins"), func() {
	It("lets actions change, add and skip objects", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.SharedOperator(t)}, world.CreateApp(t, 0), own(t, "items")
		install(t, world.NewFaultPlugin(path.Base(action), onItems(action)))
		asking(t, app, "labels", "label:example.io/has=database")
		asking(t, app, "conflicts", "label:taken=no")
		asking(t, app, "adds", "add:wanted")
		asking(t, app, "fails", "error:the table is locked")
		asking(t, app, "marks", "mark")
		asking(t, app, "renames", "rename")
		env.Create(t, world.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "wanted"}})
		env.Create(t, world.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "unwanted"}})

		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		b.Labels["taken"] = "yes"
		b.Spec.IncludedResources = []v1alpha1.NamePattern{"configmaps", "secrets"}
		b.Spec.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}
		parameter(b, action, "mark", "of the "+path.Base(action))
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhasePartiallyFailed, "2 errors")
		if plugin := plannedOf(b, action); plugin != path.Base(action) {
			t.Errorf("the action is planned of Plugin %q", plugin)
		}
		if b.Labels["example.io/has"] != "database" || b.Labels["taken"] != "yes" {
			t.Errorf("the labels are %v", b.Labels)
		}
		results := s.results(t, b)
		errs := messages(results.Errors)
		says(t, errs, "fails", action, "the table is locked")
		says(t, errs, "renames", action, "other")
		archived := s.archived(t, b)
		for _, name := range []string{"labels", "conflicts", "adds", "marks"} {
			if has(archived, "configmaps", app, name) == "" {
				t.Errorf("the archive lacks %s: %v", name, slices.Sorted(maps.Keys(archived)))
			}
		}
		for _, name := range []string{"fails", "renames", "other"} {
			if has(archived, "configmaps", app, name) != "" {
				t.Errorf("the archive has %s", name)
			}
		}
		if has(archived, "secrets", app, "wanted") == "" || has(archived, "secrets", app, "unwanted") != "" {
			t.Errorf("of the Secrets the one that was named has to be there, and no other: %v", slices.Sorted(maps.Keys(archived)))
		}
		if marked := has(archived, "configmaps", app, "marks"); !strings.Contains(marked, "of the "+path.Base(action)) {
			t.Errorf("the parameter did not reach the action: %s", marked)
		}
	})

	It("fails only what needs the action", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.SharedOperator(t)}, world.CreateApp(t, 1), own(t, "items")
		plugin := install(t, world.NewFaultPlugin(path.Base(action), onItems(action)))
		world.Patch(t, plugin, `{"spec":{"executor":{"process":{"command":"no-such-file"}}}}`)
		await(t, plugin, "it is not ready", func(p *v1alpha1.Plugin) bool {
			return conditionOf(p, v1alpha1.ConditionStalled) == metav1.ConditionTrue
		})
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		refused(t, s.apply(t, b), []string{"BackupItem action " + action, "Plugin " + plugin.Name, "no-such-file", "failurePolicy"})
		s.undisturbed(t, app)

		world.Patch(t, plugin, `{"spec":{"failurePolicy":"Ignore"}}`)
		b = s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted, "warning")
		says(t, messages(s.results(t, b).Warnings), action, "skipped")
	})

	It("shows the objects again after a restart", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.StartOperator(t)}, world.CreateApp(t, 0), own(t, "items")
		install(t, world.NewFaultPlugin(path.Base(action), onItems(action)))
		file := filepath.Join(t.TempDir(), "go-on")
		asking(t, app, "waits", "await:"+file)
		asking(t, app, "labels", "label:example.io/has=database")
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		s.apply(t, b)
		doing(t, b, v1alpha1.ReasonArchiving)
		Expect(s.Operator.Kill()).To(Succeed())
		Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
		s.RestartOperator(t)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted)
		if b.Status.Attempts != 2 || b.Labels["example.io/has"] != "database" {
			t.Errorf("the archive was begun %d times, the labels are %v", b.Status.Attempts, b.Labels)
		}
		if archived := s.archived(t, b); has(archived, "configmaps", app, "waits") == "" {
			t.Errorf("the archive has %v", slices.Sorted(maps.Keys(archived)))
		}
	})

	// The older one works, and the other one as soon as it is alone.
	It("reports the conflict on both Plugins", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.SharedOperator(t)}, world.CreateApp(t, 1), own(t, "items")
		older := install(t, world.NewFaultPlugin("a-"+path.Base(action), onItems(action)))
		younger := createPlugin(t, world.NewFaultPlugin("b-"+path.Base(action), onItems(action)))
		await(t, younger, "it is refused", func(p *v1alpha1.Plugin) bool {
			return reasonOf(p, v1alpha1.ConditionReady) == v1alpha1.ReasonDuplicateAction && strings.Contains(p.Status.Message, older.Name)
		})
		await(t, older, "it says so and is ready", func(p *v1alpha1.Plugin) bool {
			return conditionOf(p, v1alpha1.ConditionReady) == metav1.ConditionTrue &&
				conditionOf(p, v1alpha1.ConditionDuplicateActions) == metav1.ConditionTrue && strings.Contains(p.Status.Message, younger.Name)
		})
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted)
		if plugin := plannedOf(b, action); plugin != older.Name {
			t.Errorf("the action is planned of Plugin %q, want the older one", plugin)
		}
		says(t, messages(s.results(t, b).Warnings), "Plugin "+younger.Name+" is skipped", older.Name)
		world.Delete(t, older)
		await(t, younger, "it is ready", func(p *v1alpha1.Plugin) bool {
			return conditionOf(p, v1alpha1.ConditionReady) == metav1.ConditionTrue && p.Status.Message == ""
		})
	})

	It("needs no restart for a changed binary", func() {
		t := suite.Spec(GinkgoTB())
		s, action := site{world.SharedOperator(t)}, own(t, "items")
		plugin := world.NewFaultPlugin(path.Base(action), onItems(action))
		plugin.Spec.Executor.Process.Command = "late/" + plugin.Name
		binary := filepath.Join(s.Dir, "plugins", "late", plugin.Name)
		createPlugin(t, plugin)
		await(t, plugin, "there is no binary", func(p *v1alpha1.Plugin) bool {
			return reasonOf(p, v1alpha1.ConditionReady) == "BinaryNotFound"
		})
		replace := func(source string) {
			t.Helper()
			next := binary + ".next"
			Expect(os.MkdirAll(filepath.Dir(binary), 0o755)).To(Succeed())
			content, err := os.ReadFile(filepath.Join(s.Dir, "plugins", source))
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(next, content, 0o755)).To(Succeed())
			Expect(os.Rename(next, binary)).To(Succeed())
		}
		provides := func(p *v1alpha1.Plugin, name string) bool {
			return conditionOf(p, v1alpha1.ConditionReady) == metav1.ConditionTrue &&
				slices.ContainsFunc(p.Status.Actions, func(a v1alpha1.ProvidedAction) bool { return a.Name == name })
		}
		replace("fault")
		first := await(t, plugin, "it provides the action", func(p *v1alpha1.Plugin) bool { return provides(p, action) })
		Expect(os.Remove(binary)).To(Succeed())
		await(t, plugin, "the binary is gone", func(p *v1alpha1.Plugin) bool {
			return reasonOf(p, v1alpha1.ConditionReady) == "BinaryNotFound"
		})
		replace("fault")
		again := await(t, plugin, "it is back", func(p *v1alpha1.Plugin) bool { return provides(p, action) })
		if first.Status.Digest != again.Status.Digest || first.Status.Digest == "" {
			t.Errorf("the digests of one binary are %q and %q", first.Status.Digest, again.Status.Digest)
		}
	})
})

// plannedOf returns the Plugin of which an action on objects is planned.
func plannedOf(b *v1alpha1.Backup, action string) string {
	for _, planned := range b.Status.ItemActions {
		if planned.Name == action {
			return planned.Plugin
		}
	}
	return ""
}

// has returns an object of an archive, "" if it is not there.
func has(archived map[string]string, resource, namespace, name string) string {
	return archived["resources/"+resource+"/namespaces/"+namespace+"/"+name+".json"]
}
