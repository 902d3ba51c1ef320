// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The plan of a backup", Label("hooks"), func() {
	Context("reports an action that its plugin does not provide", func() {
		for _, policy := range []v1alpha1.FailurePolicy{v1alpha1.FailurePolicyFail, v1alpha1.FailurePolicyIgnore} {
			It(string(policy), func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				action := own(t, "declared")
				plugin := world.NewFaultPlugin(path.Base(action), pre(v1alpha1.PluginAction{Name: action, FailurePolicy: policy}))
				plugin.Spec.Executor.Process.Env[0].Value = "PreBackupAction:" + own(t, "provided")
				// An undeclared action runs for every Backup, so the Plugin declares it, too.
				provided := strings.TrimPrefix(plugin.Spec.Executor.Process.Env[0].Value, "PreBackupAction:")
				plugin.Spec.Actions = append(plugin.Spec.Actions, pre(v1alpha1.PluginAction{Name: provided})...)
				install(t, plugin)
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(action)
				s.apply(t, b)
				const problem = "the plugin does not provide a PreBackupAction of that name; fix spec.actions"
				if policy == v1alpha1.FailurePolicyFail {
					refused(t, b, []string{action, problem, action + ".prebackup: skip"})
					return
				}
				b = outcome(t, b, v1alpha1.RunPhaseCompleted, "1 warning")
				says(t, messages(s.results(t, b).Warnings), action, problem, "failurePolicy is Ignore")
			})
		}
	})

	It("leaves out a suspended Plugin", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action := own(t, "suspended")
		plugin := install(t, world.NewFaultPlugin(path.Base(action), both(v1alpha1.PluginAction{Name: action})))
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(action, pair)
		world.Patch(t, plugin, `{"spec":{"suspend":true}}`)
		s.apply(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted)
		env.CheckEqual(t, "calls", callsOf(t, b), []string{"PreBackup " + pair + " #1", "PostBackup " + pair + " #1"})
	})

	It("records when the Backup expires", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		for name, c := range map[string]struct {
			ttl  *metav1.Duration
			want time.Duration
		}{
			"an hour": {&metav1.Duration{Duration: time.Hour}, time.Hour},
			"forever": {ttl: &metav1.Duration{}},
			"default": {want: 720 * time.Hour},
		} {
			b := s.NewBackup(app)
			b.Spec.TTL = c.ttl
			b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted)
			if at, want := b.Status.Expiration, b.Status.StartTimestamp.Add(c.want); (at == nil) != (c.want == 0) || at != nil && !at.Time.Equal(want) {
				t.Errorf("%s: it expires at %s, want %s", name, at, want)
			}
			if note := "expires at " + b.Status.StartTimestamp.UTC().Add(c.want).Format(time.RFC3339) + " by default"; strings.Contains(b.Status.Message, note) != (name == "default") {
				t.Errorf("%s: the message is %q", name, b.Status.Message)
			}
			if (b.Spec.TTL == nil) != (c.ttl == nil) {
				t.Errorf("%s: the operator changed spec.ttl", name)
			}
		}
	})

	It("never runs an entry of the catalog without a Plugin", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		entry := s.NewBackup(app)
		entry.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: env.DefaultLocation}
		env.Create(t, world.Client, entry)
		s.undisturbed(t, app) // by then the operator has seen both
		if last := latest(entry); last.Status.Phase != "" || len(last.Finalizers) > 0 {
			t.Errorf("it was touched: %s", describe(entry))
		}
	})

	It("never archives runs as data", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		s.undisturbed(t, world.CreateApp(t, 1))
		b := s.NewBackup(s.Name)
		b.Labels = env.LabelsForActions(pair)
		b.Spec.IncludedResources = nil
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted)
		objects := s.archived(t, b)
		contains(t, objects, "resources/backupstoragelocations.grapnel.dev/namespaces/"+s.Name+"/"+env.DefaultLocation+".json")
		for file := range objects {
			if strings.HasPrefix(file, "resources/backups.grapnel.dev/") || strings.HasPrefix(file, "resources/hookruns.grapnel.dev/") {
				t.Errorf("%s is in the archive", file)
			}
		}
	})
})
