// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Plugins that do not load", Label("plugins"), func() {
	It("fails Backups that need their actions", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		err := os.WriteFile(filepath.Join(s.Dir, "plugins", "not-executable"), []byte("#!/bin/sh\n"), 0o600)
		Expect(err).NotTo(HaveOccurred())
		broken := map[string]struct {
			command, start string
			says           string
		}{
			"missing":          {"no-such-file", "", "no-such-file"},
			"not-executable":   {"not-executable", "", "not executable"},
			"exits":            {"fault", "exit", "cannot read the licence file"},
			"prints-rubbish":   {"fault", "rubbish", "Hello! Starting up"},
			"prints-usage":     {"fault", "rubbish-and-exit", "usage: tool [flags]"},
			"hangs":            {"fault", "hang", "waiting for a lock that never comes"},
			"is-too-late":      {"fault", "lister-hang", ""},
			"lists-nothing":    {"fault", "lister-error", "cannot list"},
			"lists-bad-names":  {"fault", "lister-bad-name", "Not A/Name"},
			"speaks-otherwise": {"fault", "wrong-protocol", "protocol"},
		}
		var plugins []*v1alpha1.Plugin
		for name, c := range broken {
			plugin := world.NewFaultPlugin("never-"+name, nil, "FAULT_START="+c.start)
			plugin.Spec.Executor.Process.Command = c.command
			plugin.Spec.Executor.Process.StartTimeout = within(time.Second)
			plugins = append(plugins, createPlugin(t, plugin))
		}
		refusing := s.NewBackup(app)
		refusing.Labels = env.LabelsForActions(pair)
		s.apply(t, refusing)
		doing(t, refusing, v1alpha1.ReasonWaitingForPlugins)
		var want [][]string
		for name, c := range broken {
			want = append(want, []string{"Plugin never-" + name + " was never loaded", c.says, "fix it, set spec.suspend, or set its failurePolicy to Ignore"})
		}
		refused(t, refusing, want...)
		for _, plugin := range plugins {
			checkBroken(t, plugin)
			world.Patch(t, plugin, `{"spec":{"failurePolicy":"Ignore"}}`)
		}
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(pair)
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted, "10 warnings")
		for name := range broken {
			says(t, messages(s.results(t, b).Warnings), "Plugin never-"+name+" is skipped", "failurePolicy is Ignore")
		}
		if err := world.CheckLogsForSecrets(); err != nil {
			t.Error(err)
		}
	})
})

// checkBroken checks that a Plugin says what is wrong with it, without its secrets.
func checkBroken(t testing.TB, plugin *v1alpha1.Plugin) {
	t.Helper()
	plugin = await(t, plugin, "it is stalled", func(p *v1alpha1.Plugin) bool {
		return conditionOf(p, v1alpha1.ConditionStalled) == metav1.ConditionTrue
	})
	awaitEvent(t, plugin, "Warning LoadFailed: ")
	for _, text := range append(eventsOf(plugin), plugin.Status.Message) {
		for _, secret := range secrets() {
			if strings.Contains(text, secret) {
				t.Errorf("Plugin %s tells the secret %q: %s", plugin.Name, secret, text)
			}
		}
	}
}
