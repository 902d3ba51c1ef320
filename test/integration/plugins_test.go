// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
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
	// brief has one second.
	brief = "story.example.io/brief"
	// preOnly has no other side.
	preOnly = "story.example.io/pre-only"
	// stubborn is tried three times.
	stubborn = "story.example.io/stubborn"
	// lenient has one second, and the failurePolicy Ignore.
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

	// freeze is the pair of the example plugin, notify its PostBackup action.
	freeze = "example.io/freeze"
	notify = "example.io/notify"
)

// secretToken is in the environment of the fault plugins, which log it when asked to.
const secretToken = "tok-5f1d0a7be2c94d60"

// use returns the labels of a Backup that asks for actions.
func use(actions ...string) map[string]string {
	labels := map[string]string{}
	for _, action := range actions {
		maps.Copy(labels, selectorOf(action).MatchLabels)
	}
	return labels
}

func selectorOf(action string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"use-" + action[strings.Index(action, "/")+1:]: "yes"}}
}

// both declares a pair, pre and post one side.
func both(action v1alpha1.PluginAction) []v1alpha1.PluginAction {
	return slices.Concat(pre(action), post(action))
}

func pre(action v1alpha1.PluginAction) []v1alpha1.PluginAction {
	action.Kind, action.Selector, action.RunOn = v1alpha1.ActionKindPreBackup, selectorOf(action.Name), nil
	return []v1alpha1.PluginAction{action}
}

func post(action v1alpha1.PluginAction) []v1alpha1.PluginAction {
	action.Kind, action.Selector = v1alpha1.ActionKindPostBackup, selectorOf(action.Name)
	return []v1alpha1.PluginAction{action}
}

func within(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// faultPlugin returns a Plugin of the fault plugin with some actions. Variables are
// "NAME=value" of its environment.
func faultPlugin(name string, actions []v1alpha1.PluginAction, variables ...string) *v1alpha1.Plugin {
	announced := make([]string, len(actions))
	for i, action := range actions {
		announced[i] = string(action.Kind) + ":" + action.Name
	}
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: name}}
	plugin.Spec.Actions = actions
	variables = append([]string{
		"FAULT_ACTIONS=" + strings.Join(announced, ","), "FAULT_CALL_LOG=" + callLog(), "FAULT_TOKEN=" + secretToken,
	}, variables...)
	plugin.Spec.Executor.Process = &v1alpha1.ProcessExecutor{Command: "fault", Env: environment(variables...)}
	return plugin
}

func environment(variables ...string) []v1alpha1.EnvVar {
	var list []v1alpha1.EnvVar
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		list = append(list, v1alpha1.EnvVar{Name: name, Value: value})
	}
	return list
}

// sharedPlugins returns the Plugins with the actions above.
func sharedPlugins() []*v1alpha1.Plugin {
	long, little := within(5*time.Minute), within(time.Second)
	example := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "example"}}
	example.Spec.Executor.Process = &v1alpha1.ProcessExecutor{Command: "example"}
	example.Spec.Actions = slices.Concat(both(v1alpha1.PluginAction{Name: freeze}), post(v1alpha1.PluginAction{Name: notify}))
	return []*v1alpha1.Plugin{
		example,
		faultPlugin("story", slices.Concat(
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
		faultPlugin("pre-fails", both(v1alpha1.PluginAction{Name: preFails}), "FAULT_CALL=PreBackup=error"),
		faultPlugin("pre-hangs", both(v1alpha1.PluginAction{Name: preHangs, Timeout: little}), "FAULT_CALL=PreBackup=hang"),
		faultPlugin("pre-waits", slices.Concat(
			both(v1alpha1.PluginAction{Name: preExpires, Timeout: little}),
			both(v1alpha1.PluginAction{Name: preHolds, Timeout: long}),
		), "FAULT_CALL=PreBackup=wait"),
	}
}

func installPlugins(ctx context.Context) error {
	for _, plugin := range sharedPlugins() {
		if err := world.client.Create(ctx, plugin); err != nil {
			return fmt.Errorf("creating Plugin %s: %w", plugin.Name, err)
		}
	}
	return nil
}

// awaitPlugins waits until the shared Plugins are loaded.
func awaitPlugins(t *testing.T) {
	t.Helper()
	for _, plugin := range sharedPlugins() {
		eventually(t, func() string {
			for _, seen := range all[*v1alpha1.Plugin](world.watched) {
				if seen.Name == plugin.Name && conditionOf(seen, v1alpha1.ConditionReady) == metav1.ConditionTrue {
					return ""
				}
			}
			return "Plugin " + plugin.Name + " is not ready"
		})
	}
}

// callLog is the file to which the fault plugins write what they are called for.
func callLog() string { return filepath.Join(world.dir, "calls.jsonl") }

// call is a line of it.
type call struct {
	Point   v1alpha1.HookPoint
	Action  string
	Key     string
	Attempt int32
}

// callsOf returns the calls that the fault plugins got for a Backup, in order, as
// "PreBackup name #attempt".
func callsOf(t *testing.T, b *v1alpha1.Backup) []string {
	t.Helper()
	content, err := os.ReadFile(callLog())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, run := range runsOf(b) {
		keys[string(run.UID)] = true
	}
	var calls []string
	for scanner := bufio.NewScanner(bytes.NewReader(content)); scanner.Scan(); {
		var c call
		if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if keys[c.Key] {
			calls = append(calls, fmt.Sprintf("%s %s #%d", c.Point, c.Action, c.Attempt))
		}
	}
	return calls
}

// createPlugin creates a Plugin for one test.
func createPlugin(t *testing.T, plugin *v1alpha1.Plugin) *v1alpha1.Plugin {
	t.Helper()
	create(t, plugin)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := client.IgnoreNotFound(world.client.Delete(ctx, plugin.DeepCopy())); err != nil {
			t.Error(err)
		}
		if !t.Failed() {
			awaitGone(t, plugin)
		}
	})
	return plugin
}

// install creates a Plugin for one test, and waits until it is loaded.
func install(t *testing.T, plugin *v1alpha1.Plugin) *v1alpha1.Plugin {
	t.Helper()
	return await(t, createPlugin(t, plugin), "it is ready", func(p *v1alpha1.Plugin) bool {
		return conditionOf(p, v1alpha1.ConditionReady) == metav1.ConditionTrue
	})
}

// own returns the name of an action that no other test has.
func own(t *testing.T, name string) string {
	t.Helper()
	return "own.example.io/" + name + "-" + strings.ToLower(rand.Text()[:8])
}
