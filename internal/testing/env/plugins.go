// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// FaultPluginToken is a secret in the environment of the fault plugins, which log it on request.
const FaultPluginToken = "tok-5f1d0a7be2c94d60"

// LabelsForActions returns the labels of an object that requests actions; see NewFaultPlugin.
func LabelsForActions(actions ...string) map[string]string {
	labels := map[string]string{}
	for _, action := range actions {
		labels["use-"+path.Base(action)] = "yes"
	}
	return labels
}

// SelectorForAction returns the selector of an action that runs only for objects with
// LabelsForActions.
func SelectorForAction(action string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: LabelsForActions(action)}
}

// NewFaultPlugin returns a Plugin of test/faultplugin with some actions. variables are
// "NAME=value", appended to its environment, and configure what it does. Its calls are
// recorded for FaultPluginCalls, unless FAULT_CALL_LOG is set.
func (w *Env) NewFaultPlugin(name string, actions []v1alpha1.PluginAction, variables ...string) *v1alpha1.Plugin {
	announced := make([]string, len(actions))
	for i, action := range actions {
		announced[i] = string(action.Kind) + ":" + action.Name
	}
	process := &v1alpha1.ProcessExecutor{Command: "fault", Env: []v1alpha1.EnvVar{
		{Name: "FAULT_ACTIONS", Value: strings.Join(announced, ",")},
		{Name: "FAULT_CALL_LOG", Value: w.callLogPath()},
		{Name: "FAULT_TOKEN", Value: FaultPluginToken},
	}}
	for _, variable := range variables {
		key, value, _ := strings.Cut(variable, "=")
		process.Env = slices.DeleteFunc(process.Env, func(v v1alpha1.EnvVar) bool { return v.Name == key })
		process.Env = append(process.Env, v1alpha1.EnvVar{Name: key, Value: value})
	}
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: name}}
	plugin.Spec.Actions, plugin.Spec.Executor.Process = actions, process
	return plugin
}

// configuredPlugins are the Plugins of Options.Plugins.
func (w *Env) configuredPlugins() []*v1alpha1.Plugin {
	if w.opts.Plugins == nil {
		return nil
	}
	return w.opts.Plugins()
}

// WaitForPlugins waits until Plugins are loaded.
func (w *Env) WaitForPlugins(t testing.TB, plugins ...*v1alpha1.Plugin) {
	t.Helper()
	for _, plugin := range plugins {
		WaitFor(t, w.Client, plugin, "it is ready", func(p *v1alpha1.Plugin) bool { return conditions.IsTrue(p, v1alpha1.ConditionReady) })
	}
}

// callLogPath is the file to which the fault plugins write their calls.
func (w *Env) callLogPath() string { return filepath.Join(w.Dir, "calls.jsonl") }

// FaultPluginCalls returns the calls of the fault plugins with the given idempotency keys, in
// order, as "PreBackup name #attempt".
func (w *Env) FaultPluginCalls(t testing.TB, ours func(key string) bool) []string {
	t.Helper()
	calls, _ := w.readFaultPluginCalls(t, ours)
	return calls
}

// FaultPluginTraceparents returns the traceparents of the same calls.
func (w *Env) FaultPluginTraceparents(t testing.TB, ours func(key string) bool) []string {
	t.Helper()
	_, traceparents := w.readFaultPluginCalls(t, ours)
	return traceparents
}

func (w *Env) readFaultPluginCalls(t testing.TB, ours func(key string) bool) (calls, traceparents []string) {
	t.Helper()
	content, err := os.ReadFile(w.callLogPath())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for scanner := bufio.NewScanner(bytes.NewReader(content)); scanner.Scan(); {
		var call struct {
			Point, Action, Key, Traceparent string
			Attempt                         int32
		}
		if err := json.Unmarshal(scanner.Bytes(), &call); err != nil {
			t.Fatal(err)
		}
		if ours(call.Key) {
			calls = append(calls, fmt.Sprintf("%s %s #%d", call.Point, call.Action, call.Attempt))
			traceparents = append(traceparents, call.Traceparent)
		}
	}
	return calls, traceparents
}
