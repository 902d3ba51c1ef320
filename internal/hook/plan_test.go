// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hook_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/hook"
)

var (
	backup  = hook.Points{Kind: "Backup", Pre: "PreBackup", Post: "PostBackup", Item: "BackupItem"}
	restore = hook.Points{Kind: "Restore", Pre: "PreRestore", Post: "PostRestore", Item: "RestoreItem"}
)

// pre and post return an action of the Plugin "plug".
func pre(name string, order int32) hook.Action {
	return hook.Action{Plugin: "plug", Name: name, Side: hook.Pre, Order: order}
}

func post(name string, order int32) hook.Action {
	return hook.Action{Plugin: "plug", Name: name, Side: hook.Post, Order: order}
}

func onItems(name string, order int32) hook.Action {
	return hook.Action{Plugin: "plug", Name: name, Side: hook.Item, Order: order}
}

// with returns the action with changes.
func with(a hook.Action, change func(*hook.Action)) hook.Action {
	change(&a)
	return a
}

func selecting(selector string) func(*hook.Action) {
	return func(a *hook.Action) {
		parsed, err := labels.Parse(selector)
		if err != nil {
			panic(err)
		}
		a.Selector = parsed
	}
}

func notReady(ignore bool) func(*hook.Action) {
	return func(a *hook.Action) { a.NotReady, a.IgnoreUnreachable = "crash loop", ignore }
}

func afterDataCaptured(a *hook.Action) { a.AfterDataCaptured = true }

func of(plugin string) func(*hook.Action) {
	return func(a *hook.Action) { a.Plugin = plugin }
}

// want is a plan in short form: "!" marks a clean-up step. Errors and Warnings contain, for each
// message, the parts that it must contain.
type want struct {
	Pre, Post, Items, Skipped []string
	Errors, Warnings          [][]string
}

func check(t *testing.T, in hook.Input, want want) hook.Plan {
	t.Helper()
	if in.Points.Kind == "" {
		in.Points = backup
	}
	plan := hook.BuildPlan(in)
	var skipped []string
	for _, s := range plan.Skipped {
		if s.Reason == "" {
			t.Errorf("no reason why %s is skipped", s.Name)
		}
		skipped = append(skipped, in.Points.SideName(s.Side)+" "+s.Name)
	}
	for what, pair := range map[string][2][]string{
		"pre":     {want.Pre, short(plan.Pre)},
		"post":    {want.Post, short(plan.Post)},
		"items":   {want.Items, short(plan.Items)},
		"skipped": {want.Skipped, skipped},
	} {
		if diff := cmp.Diff(pair[0], pair[1], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	messages(t, "errors", want.Errors, plan.Errors)
	messages(t, "warnings", want.Warnings, plan.Warnings)
	return plan
}

func short(steps []hook.PlannedAction) []string {
	var out []string
	for _, s := range steps {
		mark := ""
		if s.Cleanup {
			mark = "!"
		}
		out = append(out, mark+s.Name)
	}
	return out
}

func messages(t *testing.T, what string, want [][]string, got []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d %s, want %d: %q", len(got), what, len(want), got)
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

func TestBuildPlan_OrderAndSelection(t *testing.T) {
	app := map[string]string{"app": "db"}
	for name, tc := range map[string]struct {
		in   hook.Input
		want want
	}{
		"nothing": {},
		"by order, then name; post reversed": {
			in: hook.Input{Actions: []hook.Action{
				pre("x/c", 0), pre("x/b", 5), pre("x/a", 5), pre("x/d", -1),
				post("y/c", 0), post("y/b", 5), post("y/a", 5), post("y/d", -1),
			}},
			want: want{
				Pre:  []string{"x/d", "x/c", "x/a", "x/b"},
				Post: []string{"y/b", "y/a", "y/c", "y/d"},
			},
		},
		"selector": {
			in: hook.Input{Labels: app, Actions: []hook.Action{
				with(pre("x/match", 0), selecting("app=db")),
				with(pre("x/other", 0), selecting("app=web")),
				with(pre("x/every", 0), selecting("")),
				with(post("y/match", 0), selecting("app in (db)")),
				with(post("y/other", 0), selecting("!app")),
			}},
			want: want{Pre: []string{"x/every", "x/match"}, Post: []string{"y/match"}},
		},
		"pairs are owed": {
			in: hook.Input{Actions: []hook.Action{
				pre("x/quiesce", 0), post("x/quiesce", 0), post("x/notify", 1), pre("x/check", 1),
			}},
			want: want{
				Pre:  []string{"x/quiesce", "x/check"},
				Post: []string{"x/notify", "!x/quiesce"},
			},
		},
		"the post of a pair needs its pre: not selected": {
			in: hook.Input{Labels: app, Actions: []hook.Action{
				with(pre("x/quiesce", 0), selecting("app=web")), post("x/quiesce", 0),
			}},
			want: want{},
		},
		"the post of a pair follows its pre, whatever its own selector": {
			in: hook.Input{Labels: app, Actions: []hook.Action{
				with(pre("x/quiesce", 0), selecting("app=db")), with(post("x/quiesce", 0), selecting("app=web")),
			}},
			want: want{Pre: []string{"x/quiesce"}, Post: []string{"!x/quiesce"}},
		},
		"nothing runs that cannot be undone": {
			in: hook.Input{Actions: []hook.Action{
				pre("x/quiesce", 0), with(post("x/quiesce", 0), notReady(true)),
			}},
			want: want{
				Pre:      []string{"x/quiesce"},
				Warnings: [][]string{{"PostBackup action x/quiesce", "skipped"}},
				Errors:   [][]string{{"PreBackup action x/quiesce", "without the PostBackup action", "skip both"}},
			},
		},
		"what waits for captured data runs before what waits for the outcome": {
			in: hook.Input{Actions: []hook.Action{
				pre("x/freeze", 0), with(post("x/freeze", 0), afterDataCaptured), pre("x/pause", 1), post("x/pause", 1),
				with(post("x/resume", 5), afterDataCaptured), post("x/notify", 9),
			}},
			want: want{
				Pre:  []string{"x/freeze", "x/pause"},
				Post: []string{"x/resume", "!x/freeze", "x/notify", "!x/pause"},
			},
		},
		"duplicates keep the older": {
			in: hook.Input{Actions: []hook.Action{
				with(pre("x/a", 9), of("older")), with(pre("x/a", 1), of("younger")), pre("x/b", 5),
				with(post("x/b", 0), of("younger")), // An action of another side is no duplicate.
			}},
			want: want{
				Pre:      []string{"x/b", "x/a"},
				Post:     []string{"!x/b"},
				Warnings: [][]string{{"PreBackup", "x/a", "Plugin younger is skipped", "Plugin older"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) { check(t, tc.in, tc.want) })
	}
}

func TestBuildPlan_Items(t *testing.T) {
	for name, tc := range map[string]struct {
		in   hook.Input
		want want
	}{
		"by order, then name": {
			in:   hook.Input{Actions: []hook.Action{onItems("x/c", 0), onItems("x/b", 5), onItems("x/a", 5), onItems("x/d", -1)}},
			want: want{Items: []string{"x/d", "x/c", "x/a", "x/b"}},
		},
		"selector": {
			in: hook.Input{Labels: map[string]string{"app": "db"}, Actions: []hook.Action{
				with(onItems("x/match", 0), selecting("app=db")), with(onItems("x/other", 0), selecting("app=web")),
			}},
			want: want{Items: []string{"x/match"}},
		},
		"no half of a pair, and not skipped": {
			in: hook.Input{
				Annotations: map[string]string{"x/freeze.prebackup": "skip"},
				Actions:     []hook.Action{pre("x/freeze", 0), onItems("x/freeze", 0)},
			},
			want: want{Items: []string{"x/freeze"}, Skipped: []string{"PreBackup x/freeze"}},
		},
		"not ready": {
			in:   hook.Input{Actions: []hook.Action{with(onItems("x/a", 0), notReady(false)), onItems("x/b", 0)}},
			want: want{Items: []string{"x/b"}, Errors: [][]string{{"BackupItem action x/a", "Plugin plug is not ready (crash loop)", "failurePolicy to Ignore"}}},
		},
		"not ready, ignored": {
			in:   hook.Input{Actions: []hook.Action{with(onItems("x/a", 0), notReady(true))}},
			want: want{Warnings: [][]string{{"BackupItem action x/a", "skipped"}}},
		},
		"duplicates keep the older": {
			in: hook.Input{Actions: []hook.Action{
				with(onItems("x/a", 9), of("older")), with(onItems("x/a", 1), of("younger")), pre("x/a", 0),
			}},
			want: want{Pre: []string{"x/a"}, Items: []string{"x/a"}, Warnings: [][]string{{"BackupItem", "x/a", "Plugin younger is skipped"}}},
		},
		"parameters reach it": {
			in: hook.Input{
				Parameters: map[string]map[string]string{"x/a": {"k": "v"}, "x/typo": {}},
				Actions:    []hook.Action{onItems("x/a", 0)},
			},
			want: want{Items: []string{"x/a"}, Warnings: [][]string{{"x/typo", "no Plugin provides"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := check(t, tc.in, tc.want)
			if name == "parameters reach it" && plan.Items[0].Parameters["k"] != "v" {
				t.Errorf("the parameters are %v", plan.Items[0].Parameters)
			}
		})
	}
}

func TestBuildPlan_Skips(t *testing.T) {
	pair := []hook.Action{pre("x.io/q", 0), post("x.io/q", 0), pre("bare", 1), post("bare", 1)}
	all := want{Pre: []string{"x.io/q", "bare"}, Post: []string{"!bare", "!x.io/q"}}
	wrong := func(parts ...string) want { w := all; w.Errors = [][]string{parts}; return w }
	unknown := func(parts ...string) want { w := all; w.Warnings = [][]string{parts}; return w }
	for name, tc := range map[string]struct {
		points      hook.Points
		annotations map[string]string
		actions     []hook.Action
		want        want
	}{
		"none": {want: all},
		"name with a slash, pre: the post goes with it": {
			annotations: map[string]string{"x.io/q.prebackup": "skip"},
			want: want{
				Pre: []string{"bare"}, Post: []string{"!bare"},
				Skipped: []string{"PreBackup x.io/q", "PostBackup x.io/q"},
			},
		},
		"name without a slash, pre: the post goes with it": {
			annotations: map[string]string{"bare/prebackup": "skip"},
			want: want{
				Pre: []string{"x.io/q"}, Post: []string{"!x.io/q"},
				Skipped: []string{"PreBackup bare", "PostBackup bare"},
			},
		},
		"post only, both forms": {
			annotations: map[string]string{"bare/postbackup": "skip", "x.io/q.postbackup": "skip"},
			want: want{
				Pre:     []string{"x.io/q", "bare"},
				Skipped: []string{"PostBackup x.io/q", "PostBackup bare"},
			},
		},
		"wrong value": {
			annotations: map[string]string{"x.io/q.prebackup": "Skip"},
			want:        wrong("x.io/q.prebackup", `"Skip"`, `"skip"`),
		},
		"empty value": {
			annotations: map[string]string{"bare/postbackup": ""},
			want:        wrong("bare/postbackup", `""`),
		},
		"unknown action": {
			annotations: map[string]string{"x.io/quiesze.prebackup": "skip"},
			want:        unknown("x.io/quiesze.prebackup", "no Plugin provides"),
		},
		"unknown action with a wrong value": {
			annotations: map[string]string{"other/prebackup": "yes"},
			want:        unknown("other/prebackup"),
		},
		"point of another kind": {
			annotations: map[string]string{"bare/prerestore": "skip"},
			want:        unknown("bare/prerestore", "for a Backup"),
		},
		"no skip annotation": {annotations: map[string]string{"example.org/note": "skip", "prebackup": "skip"}, want: all},
		"a restore": {
			points:      restore,
			annotations: map[string]string{"bare/prerestore": "skip"},
			want: want{
				Pre: []string{"x.io/q"}, Post: []string{"!x.io/q"},
				Skipped: []string{"PreRestore bare", "PostRestore bare"},
			},
		},
		"skipped although not ready": {
			annotations: map[string]string{"bare/prebackup": "skip"},
			actions:     []hook.Action{with(pre("bare", 0), notReady(false))},
			want:        want{Skipped: []string{"PreBackup bare"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			actions := tc.actions
			if actions == nil {
				actions = pair
			}
			check(t, hook.Input{Points: tc.points, Actions: actions, Annotations: tc.annotations}, tc.want)
		})
	}
}

func TestBuildPlan_UnusablePlugins(t *testing.T) {
	for name, tc := range map[string]struct {
		in   hook.Input
		want want
	}{
		"not ready, Fail": {
			in: hook.Input{Actions: []hook.Action{with(pre("x.io/q", 0), notReady(false)), pre("x.io/r", 0)}},
			want: want{
				Pre:    []string{"x.io/r"},
				Errors: [][]string{{"PreBackup", "x.io/q", "plug", "crash loop", "x.io/q.prebackup: skip"}},
			},
		},
		"not ready, Ignore": {
			in: hook.Input{Actions: []hook.Action{with(pre("x.io/q", 0), notReady(true)), pre("x.io/r", 0)}},
			want: want{
				Pre:      []string{"x.io/r"},
				Warnings: [][]string{{"PreBackup", "x.io/q", "plug", "crash loop", "Ignore"}},
			},
		},
		"not ready, Ignore: no clean-up without a start": {
			in: hook.Input{Actions: []hook.Action{with(pre("x.io/q", 0), notReady(true)), post("x.io/q", 0)}},
			want: want{
				Skipped:  []string{"PostBackup x.io/q"},
				Warnings: [][]string{{"PreBackup", "x.io/q"}},
			},
		},
		"not ready and not selected": {
			in: hook.Input{Actions: []hook.Action{
				with(with(pre("x.io/q", 0), notReady(false)), selecting("app=db")),
			}},
		},
		"all errors at once": {
			in: hook.Input{
				BrokenPlugins: []hook.BrokenPlugin{{Plugin: "gone", Message: "image not found"}},
				Actions:       []hook.Action{with(pre("a", 0), notReady(false)), with(post("b", 0), notReady(false)), pre("c", 0)},
				Annotations:   map[string]string{"c/prebackup": "no"},
			},
			want: want{
				Pre:    []string{"c"},
				Errors: [][]string{{"gone"}, {"c/prebackup"}, {"PreBackup action a"}, {"PostBackup action b"}},
			},
		},
		"broken, Fail": {
			in:   hook.Input{BrokenPlugins: []hook.BrokenPlugin{{Plugin: "gone", Message: "image not found"}}},
			want: want{Errors: [][]string{{"gone", "image not found"}}},
		},
		"broken, Ignore": {
			in: hook.Input{
				BrokenPlugins: []hook.BrokenPlugin{{Plugin: "gone", Message: "image not found", Ignore: true}},
				Actions:       []hook.Action{pre("a", 0)},
			},
			want: want{Pre: []string{"a"}, Warnings: [][]string{{"gone", "image not found", "Ignore"}}},
		},
	} {
		t.Run(name, func(t *testing.T) { check(t, tc.in, tc.want) })
	}
}

func TestBuildPlan_Parameters(t *testing.T) {
	plan := check(t, hook.Input{
		Actions: []hook.Action{pre("x.io/q", 0), post("x.io/q", 0), pre("x.io/r", 1)},
		Parameters: map[string]map[string]string{
			"x.io/q":    {"depth": "2"},
			"x.io/typo": {"depth": "3"},
		},
	}, want{
		Pre: []string{"x.io/q", "x.io/r"}, Post: []string{"!x.io/q"},
		Warnings: [][]string{{"x.io/typo", "no Plugin provides"}},
	})
	got := []map[string]string{plan.Pre[0].Parameters, plan.Pre[1].Parameters, plan.Post[0].Parameters}
	if diff := cmp.Diff([]map[string]string{{"depth": "2"}, nil, {"depth": "2"}}, got); diff != "" {
		t.Errorf("parameters of q, r and q's clean-up (-want +got):\n%s", diff)
	}
}

// TestBuildPlan_DuplicateAction: the declaration of the older of two actions counts.
func TestBuildPlan_DuplicateAction(t *testing.T) {
	older := with(pre("x.io/q", 3), func(a *hook.Action) { a.Plugin, a.Retries, a.FailOnInterruption = "older", 4, true })
	plan := hook.BuildPlan(hook.Input{Points: backup, Actions: []hook.Action{older, with(pre("x.io/q", 1), of("younger"))}})
	if diff := cmp.Diff([]hook.PlannedAction{{Action: older}}, plan.Pre); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// TestBuildPlan_Awaited: Recoverable contains what a Plugin may still resolve, and nothing
// permanent.
func TestBuildPlan_Awaited(t *testing.T) {
	invalid := map[string]string{backup.SkipAnnotationKey("example.io/a", hook.Pre): "yes"}
	for name, tc := range map[string]struct {
		in   hook.Input
		want []string
	}{
		"nothing":                          {in: hook.Input{Actions: []hook.Action{pre("example.io/a", 0)}}},
		"a Plugin is not ready":            {in: hook.Input{Actions: []hook.Action{with(pre("example.io/a", 0), notReady(false))}}, want: []string{"crash loop"}},
		"the run continues without it":     {in: hook.Input{Actions: []hook.Action{with(pre("example.io/a", 0), notReady(true))}}},
		"a Plugin was never loaded":        {in: hook.Input{BrokenPlugins: []hook.BrokenPlugin{{Plugin: "gone", Message: "image not found"}}}, want: []string{"gone"}},
		"no Plugin provides an action yet": {in: hook.Input{Parameters: map[string]map[string]string{"example.io/a": nil}}, want: []string{"example.io/a"}},
		"an annotation is invalid":         {in: hook.Input{Actions: []hook.Action{pre("example.io/a", 0)}, Annotations: invalid}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.Points = backup
			plan := hook.BuildPlan(tc.in)
			if len(plan.Recoverable) != len(tc.want) {
				t.Fatalf("awaited are %q, want %q", plan.Recoverable, tc.want)
			}
			for i, part := range tc.want {
				if !strings.Contains(plan.Recoverable[i], part) {
					t.Errorf("awaited are %q, want %q", plan.Recoverable, tc.want)
				}
			}
		})
	}
}
