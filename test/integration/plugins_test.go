// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// The actions that all tests share. Each runs only for Backups with its label (use).
// What it does is the parameter "fault" of the Backup, or that of its Plugin; see
// test/faultplugin.
const (
	// pair has a Pre and a Post side and much time.
	pair = "story.example.io/pair"
	// The pairs first, second and third run in this order, which is not that of
	// their names.
	first  = "story.example.io/z-first"
	second = "story.example.io/m-second"
	third  = "story.example.io/a-third"
	// brief has little time.
	brief = "story.example.io/brief"
	// preOnly has no other side.
	preOnly = "story.example.io/pre-only"
	// stubborn is tried three times.
	stubborn = "story.example.io/stubborn"
	// lenient has little time, and the failurePolicy Ignore.
	lenient = "story.example.io/lenient"
	// plain has a name without a slash.
	plain = "plain"
	// after runs after every outcome, the others after one.
	after          = "story.example.io/after"
	afterCompleted = "story.example.io/after-completed"
	afterPartial   = "story.example.io/after-partial"
	afterFailed    = "story.example.io/after-failed"
	afterCancelled = "story.example.io/after-cancelled"

	// The PreBackup side of the pair preFails fails, that of preExpires is not done
	// in time, that of preHangs neither, and does not even notice; that of preHolds
	// waits until it is stopped.
	preHangs   = "story.example.io/pre-hangs"
	preFails   = "story.example.io/pre-fails"
	preExpires = "story.example.io/pre-expires"
	preHolds   = "story.example.io/pre-holds"

	// operates starts operations on the objects that ask for it, and so does operatesToo,
	// on the same ones; see test/faultplugin.
	operates    = "story.example.io/operates"
	operatesToo = "story.example.io/operates-too"

	// freeze is the pair of the example plugin, notify its PostBackup action.
	freeze = "example.io/freeze"
	notify = "example.io/notify"
)

// both declares a pair, pre and post one side.
func both(action v1alpha1.PluginAction) []v1alpha1.PluginAction {
	return slices.Concat(pre(action), post(action))
}

func pre(action v1alpha1.PluginAction) []v1alpha1.PluginAction {
	action.Kind, action.Selector, action.RunOn = v1alpha1.ActionKindPreBackup, env.SelectorForAction(action.Name), nil
	return []v1alpha1.PluginAction{action}
}

func post(action v1alpha1.PluginAction) []v1alpha1.PluginAction {
	action.Kind, action.Selector = v1alpha1.ActionKindPostBackup, env.SelectorForAction(action.Name)
	return []v1alpha1.PluginAction{action}
}

// operating declares an action that starts operations, which are polled often.
func operating(action string, policy v1alpha1.OperationPolicy) []v1alpha1.PluginAction {
	policy.PollInterval = within(100 * time.Millisecond)
	return []v1alpha1.PluginAction{{
		Name: action, Kind: v1alpha1.ActionKindAsyncBackupItem, Selector: env.SelectorForAction(action), Operation: &policy,
	}}
}

func within(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// sharedPlugins returns the Plugins with the actions above.
func sharedPlugins() []*v1alpha1.Plugin {
	long, little := within(5*time.Minute), within(4*time.Second)
	example := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "example"}}
	example.Spec.Executor.Process = &v1alpha1.ProcessExecutor{Command: "example", Env: []v1alpha1.EnvVar{
		{Name: "EXAMPLE_STATE_DIR", Value: exampleDir()}, {Name: "KUBECONFIG", Value: world.ControlPlane.KubeconfigPath()},
	}}
	soon := &v1alpha1.OperationPolicy{PollInterval: within(100 * time.Millisecond)}
	example.Spec.Actions = slices.Concat(both(v1alpha1.PluginAction{Name: freeze}), post(v1alpha1.PluginAction{Name: notify}),
		[]v1alpha1.PluginAction{
			{Name: exampleCopy, Kind: v1alpha1.ActionKindAsyncBackupItem, Operation: soon},
			{Name: exampleCopy, Kind: v1alpha1.ActionKindAsyncRestoreItem, Operation: soon},
		})
	return []*v1alpha1.Plugin{
		example,
		world.NewFaultPlugin("story", slices.Concat(
			both(v1alpha1.PluginAction{Name: pair, Timeout: long}),
			both(v1alpha1.PluginAction{Name: first, Order: 10}),
			both(v1alpha1.PluginAction{Name: second, Order: 20}),
			both(v1alpha1.PluginAction{Name: third, Order: 30}),
			pre(v1alpha1.PluginAction{Name: brief, Timeout: little}),
			pre(v1alpha1.PluginAction{Name: preOnly}),
			pre(v1alpha1.PluginAction{Name: stubborn, Retries: 2}),
			pre(v1alpha1.PluginAction{Name: lenient, Timeout: little, FailurePolicy: v1alpha1.FailurePolicyIgnore}),
			both(v1alpha1.PluginAction{Name: plain}),
			post(v1alpha1.PluginAction{Name: after}),
			post(v1alpha1.PluginAction{Name: afterCompleted, RunOn: []v1alpha1.Outcome{v1alpha1.OutcomeCompleted}}),
			post(v1alpha1.PluginAction{Name: afterPartial, RunOn: []v1alpha1.Outcome{v1alpha1.OutcomePartiallyFailed}}),
			post(v1alpha1.PluginAction{Name: afterFailed, RunOn: []v1alpha1.Outcome{v1alpha1.OutcomeFailed}}),
			post(v1alpha1.PluginAction{Name: afterCancelled, RunOn: []v1alpha1.Outcome{v1alpha1.OutcomeCancelled}}),
		)),
		world.NewFaultPlugin("operates", slices.Concat(
			operating(operates, v1alpha1.OperationPolicy{}), operating(operatesToo, v1alpha1.OperationPolicy{}),
		), "FAULT_OPERATIONS="+filepath.Join(world.Dir, "operations")),
		world.NewFaultPlugin("pre-fails", both(v1alpha1.PluginAction{Name: preFails}), "FAULT_CALL=PreBackup=error"),
		world.NewFaultPlugin("pre-hangs", both(v1alpha1.PluginAction{Name: preHangs, Timeout: little}), "FAULT_CALL=PreBackup=hang"),
		world.NewFaultPlugin("pre-waits", slices.Concat(
			both(v1alpha1.PluginAction{Name: preExpires, Timeout: little}),
			both(v1alpha1.PluginAction{Name: preHolds, Timeout: long}),
		), "FAULT_CALL=PreBackup=wait"),
	}
}

// callsOf returns the calls that the fault plugins got for a Backup, in order, as
// "PreBackup name #attempt".
func callsOf(t testing.TB, b *v1alpha1.Backup) []string {
	t.Helper()
	keys := map[string]bool{}
	for _, run := range runsOf(b) {
		keys[string(run.UID)] = true
	}
	return world.FaultPluginCalls(t, func(key string) bool { return keys[key] })
}

// createPlugin creates a Plugin for one test.
func createPlugin(t testing.TB, plugin *v1alpha1.Plugin) *v1alpha1.Plugin {
	t.Helper()
	env.Create(t, world.Client, plugin)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := client.IgnoreNotFound(world.Client.Delete(ctx, plugin.DeepCopy())); err != nil {
			t.Error(err)
		}
		if !t.Failed() {
			awaitGone(t, plugin)
		}
	})
	return plugin
}

// install creates a Plugin for one test, and waits until it is loaded.
func install(t testing.TB, plugin *v1alpha1.Plugin) *v1alpha1.Plugin {
	t.Helper()
	return await(t, createPlugin(t, plugin), "it is ready", func(p *v1alpha1.Plugin) bool {
		return conditionOf(p, v1alpha1.ConditionReady) == metav1.ConditionTrue
	})
}

// own returns the name of an action that no other test has.
func own(t testing.TB, name string) string {
	t.Helper()
	return "own.example.io/" + name + "-" + strings.ToLower(rand.Text()[:8])
}
