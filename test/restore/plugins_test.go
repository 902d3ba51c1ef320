// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// The pairs that all tests share. Each runs only for Backups and Restores with its
// label (use). What it does is the parameter "fault", or that of its Plugin; see
// test/faultplugin.
const (
	// first and second run in this order, which is not that of their names. They
	// have an action before a backup too.
	first  = "story.example.io/z-first"
	second = "story.example.io/a-second"
	// The PreRestore side of holds waits until it is stopped, that of fails fails.
	holds = "holds.example.io/holds"
	fails = "fails.example.io/fails"
)

// sharedPlugins returns the Plugins with the actions above.
func sharedPlugins() []*v1alpha1.Plugin {
	return []*v1alpha1.Plugin{
		faultPlugin("story", []string{first, second}),
		faultPlugin("holds", []string{holds}, "FAULT_CALL=PreRestore=wait"),
		faultPlugin("fails", []string{fails}, "FAULT_CALL=PreRestore=error"),
	}
}

// faultPlugin returns a Plugin of the fault plugin with pairs in this order.
// Variables are "NAME=value" of its environment.
func faultPlugin(name string, pairs []string, variables ...string) *v1alpha1.Plugin {
	var actions []v1alpha1.PluginAction
	for i, pair := range pairs {
		for _, kind := range []v1alpha1.ActionKind{
			v1alpha1.ActionKindPreBackup, v1alpha1.ActionKindPreRestore, v1alpha1.ActionKindPostRestore,
		} {
			actions = append(actions, v1alpha1.PluginAction{Name: pair, Kind: kind, Order: int32(i + 1), Selector: env.SelectorForAction(pair)})
		}
	}
	return world.NewFaultPlugin(name, actions, variables...)
}

// newKiller returns a pair for one test, the first call of which at a point kills the
// operator.
func newKiller(t testing.TB, point v1alpha1.HookPoint) string {
	t.Helper()
	name := "kills-" + strings.ToLower(rand.Text()[:12])
	pair := name + ".example.io/" + name
	plugin := env.Create(t, world.Client, faultPlugin(name, []string{pair},
		fmt.Sprintf("FAULT_KILL_PARENT_AT=%s:1", point), "FAULT_CALL_LOG="+filepath.Join(world.Dir, name+"-calls.jsonl"))) // calls are counted there
	world.WaitForPlugins(t, plugin)
	return pair
}

// runsOf returns the HookRuns of a Backup or Restore by their idempotency key. It
// also works in the clean-up of a test.
func runsOf(t testing.TB, r client.Object) map[string]v1alpha1.HookRun {
	t.Helper()
	var list v1alpha1.HookRunList
	err := world.Client.List(context.WithoutCancel(t.Context()), &list, client.InNamespace(r.GetNamespace()),
		client.MatchingLabels{v1alpha1.LabelParentUID: string(r.GetUID())})
	Expect(err).NotTo(HaveOccurred())
	runs := map[string]v1alpha1.HookRun{}
	for _, run := range list.Items {
		runs[string(run.UID)] = run
	}
	return runs
}

// runOf waits for the HookRun of an action as the test wants it.
func runOf(t testing.TB, r client.Object, point v1alpha1.HookPoint, action string, right func(v1alpha1.HookRun) bool) v1alpha1.HookRun {
	t.Helper()
	var found v1alpha1.HookRun
	suite.Eventually(t, func() string {
		for _, run := range runsOf(t, r) {
			if run.Spec.Hook == point && run.Spec.ActionName == action && right(run) {
				found = run
				return ""
			}
		}
		return fmt.Sprintf("no %s action %s is as it should be: %v", point, action, runsOf(t, r))
	})
	return found
}

// called waits until an action was called.
func called(t testing.TB, r client.Object, point v1alpha1.HookPoint, action string) {
	t.Helper()
	runOf(t, r, point, action, func(run v1alpha1.HookRun) bool { return run.Status.StartTimestamp != nil })
}

// callsOf returns the calls that a plugin got for a Restore, in order, as
// "PreRestore name #attempt".
func callsOf(t testing.TB, r *v1alpha1.Restore, plugin string) []string {
	t.Helper()
	runs := runsOf(t, r)
	return world.FaultPluginCalls(t, func(key string) bool {
		run, ours := runs[key]
		return ours && strings.HasPrefix(run.Spec.ActionName, plugin+".example.io/")
	})
}
