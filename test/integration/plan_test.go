// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

func TestAnActionThatItsPluginDoesNotProvide(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	app := world.CreateApp(t, 1)
	for _, policy := range []v1alpha1.FailurePolicy{v1alpha1.FailurePolicyFail, v1alpha1.FailurePolicyIgnore} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
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
}

func TestASuspendedPluginIsLeftOut(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	action := own(t, "suspended")
	plugin := install(t, world.NewFaultPlugin(path.Base(action), both(v1alpha1.PluginAction{Name: action})))
	b := s.NewBackup(world.CreateApp(t, 1))
	b.Labels = env.LabelsForActions(action, pair)
	world.Patch(t, plugin, `{"spec":{"suspend":true}}`)
	s.apply(t, b)
	b = outcome(t, b, v1alpha1.RunPhaseCompleted)
	env.CheckEqual(t, "calls", callsOf(t, b), []string{"PreBackup " + pair + " #1", "PostBackup " + pair + " #1"})
}

func TestABackupSaysWhenItExpires(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	b := s.NewBackup(world.CreateApp(t, 1))
	b.Spec.TTL = &metav1.Duration{Duration: time.Hour}
	b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted)
	if want := b.Status.StartTimestamp.Add(time.Hour); !b.Status.Expiration.Time.Equal(want) {
		t.Errorf("it expires at %s, want %s", b.Status.Expiration, want)
	}
}

func TestACatalogueEntryIsNeverRun(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	app := world.CreateApp(t, 1)
	entry := s.NewBackup(app)
	entry.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: env.DefaultLocation}
	env.Create(t, world.Client, entry)
	s.undisturbed(t, app) // by then the operator has seen both
	if last := latest(entry); last.Status.Phase != "" || len(last.Finalizers) > 0 {
		t.Errorf("it was touched: %s", describe(entry))
	}
}

func TestRunsAreNeverData(t *testing.T) {
	t.Parallel()
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
}
