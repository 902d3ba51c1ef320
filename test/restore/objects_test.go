// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"encoding/json"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The objects of a Restore", Label("restore"), func() {
	// The namespace has one object as in the backup, one that differs, and none of the third.
	It("follows the policy for existing objects", Label("oldest"), func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 3)
		b := s.backUp(t, app)
		before := []string{"c0=0", "c1=changed"}
		for name, c := range map[string]struct {
			policy v1alpha1.ExistingResourcePolicy
			dry    bool
			after  []string
			c1     string
		}{
			"none":              {v1alpha1.ExistingResourcePolicyNone, false, []string{"c0=0", "c1=changed", "c2=2"}, "skipped"},
			"update":            {v1alpha1.ExistingResourcePolicyUpdate, false, []string{"c0=0", "c1=1", "c2=2"}, "updated"},
			"recreate":          {v1alpha1.ExistingResourcePolicyRecreate, false, []string{"c0=0", "c1=1", "c2=2"}, "recreated"},
			"dry with none":     {v1alpha1.ExistingResourcePolicyNone, true, before, "skipped"},
			"dry with update":   {v1alpha1.ExistingResourcePolicyUpdate, true, before, "updated"},
			"dry with recreate": {v1alpha1.ExistingResourcePolicyRecreate, true, before, "recreated"},
		} {
			By(name, func() {
				r, target := s.restoreOf(b.Name, app)
				occupy(t, target)
				versions := versionsOf(t, target)
				r.Labels = env.LabelsForActions(first)
				r.Spec.ExistingResourcePolicy, r.Spec.DryRun = c.policy, c.dry
				r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted)
				env.CheckEqual(t, "objects", restored(t, target), c.after)
				var list map[string][]string
				Expect(json.Unmarshal([]byte(s.stored(t, r.Status.Files.ResourceList)), &list)).To(Succeed())
				env.CheckEqual(t, "resource list", list["v1/ConfigMap"], []string{
					target + "/c0(unchanged)", target + "/c1(" + c.c1 + ")", target + "/c2(created)",
				})
				if c.c1 == "skipped" {
					says(t, s.results(t, r), "c1")
					says(t, r.Status.Message, " warning")
				}
				if !c.dry {
					env.CheckEqual(t, "calls", callsOf(t, r, "story"), []string{"PreRestore " + first + " #1", "PostRestore " + first + " #1"})
					return
				}
				says(t, r.Status.Message, "Dry run, nothing was written; ")
				env.CheckEqual(t, "versions of the objects", versionsOf(t, target), versions)
				env.CheckEqual(t, "calls", callsOf(t, r, "story"), nil)
				if !slices.ContainsFunc(r.Status.PlanWarnings, func(warning string) bool {
					return warning == "this is a dry run: no action runs; otherwise these would: PreRestore: "+first+"; PostRestore: "+first
				}) {
					t.Errorf("the plan does not tell what would run: %q", r.Status.PlanWarnings)
				}
			})
		}
	})

	It("writes nothing in a dry run", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 2)
		r, target := s.restoreOf(s.backUp(t, app).Name, app)
		r.Spec.DryRun = true
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "Dry run, nothing was written; Objects: 3 created")
		untouched(t, target)
		says(t, s.stored(t, r.Status.Files.ResourceList), `"v1/ConfigMap":["`+target+`/c0(created)","`+target+`/c1(created)"]`)
		says(t, s.results(t, r), `"configmaps":["grapnel.dev/platform"]`)
	})

	It("modifies objects by the rules of a ConfigMap", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 2)
		b := s.backUp(t, app)
		const head = "version: v1\nresourceModifierRules:\n- conditions: {groupResource: configmaps, resourceNameRegex: c1}\n  "
		modified := func(name, rules string) (*v1alpha1.Restore, string) {
			if rules != "" {
				env.Create(t, world.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: name}, Data: map[string]string{"rules.yaml": rules}})
			}
			r, target := s.restoreOf(b.Name, app)
			r.Spec.ResourceModifier = &v1alpha1.ConfigMapReference{Kind: "configmap", Name: name}
			return r, target
		}
		r, target := modified("no-rules", "")
		outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailedValidation, "ConfigMap no-rules does not exist in namespace "+s.Name)
		untouched(t, target)
		r, target = modified("invalid-rules", head+"patches: [{operation: replace, path: data}]")
		outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailedValidation, "ConfigMap invalid-rules: rule 1, patches[0]: path is")
		untouched(t, target)
		r, target = modified("rules", head+`patches: [{operation: replace, path: /data/n, value: "\"new\""}]`)
		outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "3 created")
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0", "c1=new"})
	})

	It("restores the others when one object is refused", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 2)
		refused := env.NewConfigMap(app, 2)
		refused.Labels = map[string]string{labelGate: refusing}
		env.Create(t, world.Client, refused)
		b := s.backUp(t, app)
		newGate(t, refusing).open()
		r, target := s.restoreOf(b.Name, app)
		r.Labels = env.LabelsForActions(first)
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhasePartiallyFailed, "3 created, 1 failed; 1 error", "restore again")
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0", "c1=1"})
		says(t, s.results(t, r), "no ConfigMap may pass")
		says(t, s.stored(t, r.Status.Files.ResourceList), target+"/c2(failed)")
	})
})

// occupy makes a namespace with c0 as in newApp, and another c1.
func occupy(t testing.TB, namespace string) {
	t.Helper()
	env.Create(t, world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	env.Create(t, world.Client, env.NewConfigMap(namespace, 0))
	changed := env.NewConfigMap(namespace, 1)
	changed.Data["n"] = "changed"
	env.Create(t, world.Client, changed)
}

// versionsOf returns the resource versions of the ConfigMaps of a namespace.
func versionsOf(t testing.TB, namespace string) []string {
	t.Helper()
	var list corev1.ConfigMapList
	Expect(world.Client.List(t.Context(), &list, client.InNamespace(namespace))).To(Succeed())
	var versions []string
	for _, c := range list.Items {
		versions = append(versions, c.Name+" "+c.ResourceVersion)
	}
	return versions
}
