// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// plugin returns a loaded Plugin that provides a pair of actions.
func plugin(name string, change ...func(*v1alpha1.Plugin)) v1alpha1.Plugin {
	p := v1alpha1.Plugin{}
	p.Name, p.Generation = name, 1
	p.Status.Actions = []v1alpha1.ProvidedAction{
		{Name: name, Kind: v1alpha1.ActionKindPreBackup},
		{Name: name, Kind: v1alpha1.ActionKindPostBackup},
		{Name: name, Kind: v1alpha1.ActionKindPreRestore},
	}
	conditions.SetSummary(&p, conditions.Current, v1alpha1.ReasonLoaded, "The plugin runs")
	for _, f := range change {
		f(&p)
	}
	return p
}

func broken(p *v1alpha1.Plugin) {
	conditions.SetSummary(p, conditions.StalledRetrying, "NotExecutable", "the file is not executable")
}

func neverLoaded(p *v1alpha1.Plugin) { p.Status.Actions = nil; broken(p) }

func declare(a v1alpha1.PluginAction) func(*v1alpha1.Plugin) {
	return func(p *v1alpha1.Plugin) { p.Spec.Actions = append(p.Spec.Actions, a) }
}

func TestBuildHookPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		plugins   []v1alpha1.Plugin
		pre, post []string
		loading   string
		errors    [][]string
		warnings  [][]string
	}{
		"none": {},
		"restore actions are ignored": {
			plugins: []v1alpha1.Plugin{plugin("a")}, pre: []string{"a"}, post: []string{"a"},
		},
		"suspended": {plugins: []v1alpha1.Plugin{plugin("a", neverLoaded, func(p *v1alpha1.Plugin) { p.Spec.Suspend = true })}},
		"being deleted": {plugins: []v1alpha1.Plugin{plugin("a", func(p *v1alpha1.Plugin) {
			now := metav1.Now()
			p.DeletionTimestamp = &now
		})}},
		"not observed yet": {
			plugins: []v1alpha1.Plugin{plugin("a", func(p *v1alpha1.Plugin) { p.Status = v1alpha1.PluginStatus{} })},
			loading: "a",
		},
		"changed since": {
			plugins: []v1alpha1.Plugin{plugin("a", func(p *v1alpha1.Plugin) { p.Generation = 2 })}, loading: "a",
		},
		"never loaded": {
			plugins: []v1alpha1.Plugin{plugin("a", neverLoaded), plugin("b")}, pre: []string{"b"}, post: []string{"b"},
			errors: [][]string{{"Plugin a", "never loaded", "not executable"}},
		},
		"never loaded, ignored": {
			plugins: []v1alpha1.Plugin{plugin("a", neverLoaded, func(p *v1alpha1.Plugin) {
				p.Spec.FailurePolicy = v1alpha1.FailurePolicyIgnore
			})},
			warnings: [][]string{{"Plugin a", "skipped"}},
		},
		"known and broken": {
			plugins: []v1alpha1.Plugin{plugin("a", broken)},
			errors:  [][]string{{"PreBackup action a", "not ready", "not executable"}},
		},
		"declared and not provided": {
			plugins: []v1alpha1.Plugin{plugin("a", declare(v1alpha1.PluginAction{Name: "typo", Kind: v1alpha1.ActionKindPreBackup}))},
			pre:     []string{"a"}, post: []string{"a"},
			errors: [][]string{{"PreBackup action typo", "does not provide", "spec.actions"}},
		},
		"an invalid selector": {
			plugins: []v1alpha1.Plugin{plugin("a", declare(v1alpha1.PluginAction{
				Name: "a", Kind: v1alpha1.ActionKindPreBackup,
				Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Like"}}},
			}))},
			errors: [][]string{{"PreBackup action a", "selector"}},
		},
		"older Plugins first": {
			plugins: []v1alpha1.Plugin{
				plugin("young", func(p *v1alpha1.Plugin) {
					p.CreationTimestamp = metav1.NewTime(time.Unix(9, 0))
					p.Status.Actions = []v1alpha1.ProvidedAction{{Name: "old", Kind: v1alpha1.ActionKindPreBackup}}
				}),
				plugin("old"),
			},
			pre: []string{"old"}, post: []string{"old"},
			warnings: [][]string{{"Plugin young is skipped", "Plugin old"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan, loading := BackupKind.BuildHookPlan(queued("b", 0), tc.plugins)
			if loading != tc.loading {
				t.Fatalf("loading %q, want %q", loading, tc.loading)
			}
			var pre, post []string
			for _, s := range plan.Pre {
				pre = append(pre, s.Name)
			}
			for _, s := range plan.Post {
				post = append(post, s.Name)
			}
			if len(tc.errors) == 0 && (!slices.Equal(pre, tc.pre) || !slices.Equal(post, tc.post)) {
				t.Errorf("pre %q and post %q, want %q and %q", pre, post, tc.pre, tc.post)
			}
			contain(t, "errors", plan.Errors, tc.errors)
			contain(t, "warnings", plan.Warnings, tc.warnings)
		})
	}
}

// contain checks that each message has the parts that a user needs.
func contain(t *testing.T, what string, got []string, want [][]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %q, want %d", what, got, len(want))
		return
	}
	for i, parts := range want {
		for _, part := range parts {
			if !strings.Contains(got[i], part) {
				t.Errorf("%s[%d] = %q, want it to contain %q", what, i, got[i], part)
			}
		}
	}
}

// TestNewHookRun checks that a HookRun follows the declaration of its action.
func TestNewHookRun(t *testing.T) {
	b := queued("b", 0)
	b.Spec.Parameters = map[string]v1alpha1.ParameterSet{"a": {"k": "v"}}
	plan, _ := BackupKind.BuildHookPlan(b, []v1alpha1.Plugin{plugin("a",
		declare(v1alpha1.PluginAction{
			Name: "a", Kind: v1alpha1.ActionKindPreBackup, Order: 7, Retries: 2, Timeout: &metav1.Duration{Duration: time.Minute},
			FailurePolicy: v1alpha1.FailurePolicyIgnore, OnInterruption: v1alpha1.InterruptionPolicyFail,
		}),
		declare(v1alpha1.PluginAction{
			Name: "a", Kind: v1alpha1.ActionKindPostBackup, OnInterruption: v1alpha1.InterruptionPolicyFail,
			RunOn: []v1alpha1.Outcome{v1alpha1.OutcomeFailed},
		}),
	)})
	pre := BackupKind.newHookRun(b, v1alpha1.HookPreBackup, plan.Pre[0]).Spec
	post := BackupKind.newHookRun(b, v1alpha1.HookPostBackup, plan.Post[0]).Spec
	if pre.Order != 7 || pre.Retries != 2 || pre.Timeout.Duration != time.Minute || pre.Parameters["k"] != "v" ||
		pre.FailurePolicy != v1alpha1.FailurePolicyIgnore || pre.OnInterruption != v1alpha1.InterruptionPolicyFail {
		t.Errorf("the PreBackup HookRun does not match the declaration: %+v", pre)
	}
	if pre.DesiredState != v1alpha1.HookDesiredStateWait || post.DesiredState != v1alpha1.HookDesiredStateWait {
		t.Error("a planned HookRun does not wait")
	}
	if !post.Owed || post.OnInterruption != v1alpha1.InterruptionPolicyRetry {
		t.Errorf("owed clean-up must be retried after an interruption: %+v", post)
	}
	if post.Timeout.Duration != defaultActionTimeout || post.FailurePolicy != v1alpha1.FailurePolicyFail {
		t.Errorf("the defaults are %v and %v", post.Timeout, post.FailurePolicy)
	}
}
