// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	. "github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("API versions", Label("hooks"), func() {
	Context("archives every served version", func() {
		for name, c := range suite.SortedByName(map[string]struct {
			args  []string
			every bool
		}{
			"with the feature":    {[]string{"--features=EnableAPIGroupVersions"}, true},
			"without the feature": {nil, false},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				if c.args != nil {
					s = site{world.StartOperator(t, c.args...)}
				}
				app := world.CreateApp(t, 0)
				env.Create(t, world.Client, newGadget(app, "one"))
				b := s.NewBackup(app)
				b.Spec.IncludedResources = []v1alpha1.NamePattern{"gadgets.story.example.io"}
				b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted)
				objects := s.archived(t, b)
				const dir = "resources/gadgets.story.example.io/"
				file := "namespaces/" + app + "/one.json"
				contains(t, objects, dir+file, dir+"v1-preferredversion/"+file)
				if _, has := objects[dir+"v1beta1/"+file]; has != c.every {
					t.Errorf("that v1beta1 is in the archive is %v", has)
				}
			})
		}
	})

	It("reports an API group that is down", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		app := world.CreateApp(t, 1)
		down := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"group": "down.example.io", "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": app, "name": "nowhere"},
		}}}
		down.SetAPIVersion("apiregistration.k8s.io/v1")
		down.SetKind("APIService")
		down.SetName("v1.down.example.io")
		env.Create(t, world.Client, down)
		defer world.Delete(t, down)

		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(pair, afterPartial, afterCompleted)
		b.Spec.IncludedResources = nil
		// The API server takes a moment to list the group.
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhasePartiallyFailed, "1 error: API group version")
		says(t, messages(s.results(t, b).Errors), "API group version down.example.io/v1 does not answer")
		contains(t, s.archived(t, b), configMap(app, "c0"))
		awaitEvent(t, b, "Warning PartiallyFailed: ")
		env.CheckEqual(t, "PostBackup actions", env.FormatActionStatuses(b.Status.PostBackupActionsStatuses), []string{
			pair + " Completed", afterPartial + " Completed", afterCompleted,
		})
		s.WaitForMetric(t, `grapnel_backup_partial_failure_total{schedule=""}`, 1)
		s.WaitForMetric(t, `grapnel_backup_items_errors{schedule=""}`, 1)
		s.WaitForMetric(t, `grapnel_backup_last_successful_timestamp{schedule=""}`, env.MetricAbsent)

		s.undisturbed(t, app) // It asks for ConfigMaps only.
	})

	It("warns about objects that are missing", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		b := s.NewBackup(app)
		b.Spec.OrderedResources = map[string]v1alpha1.OrderedNames{"configmaps": v1alpha1.OrderedNames(app + "/vanished," + app + "/c0")}
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted, "1 warning")
		says(t, s.results(t, b).Warnings.OfNamespace(app), "configmaps", app+"/vanished", "does not exist")
		contains(t, s.archived(t, b), configMap(app, "c0"))
	})
})
