// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Side is when an action runs.
type Side int

// The sides: before everything else, after everything else, and in between for each object.
const (
	Pre Side = iota
	Post
	Item
)

// Action is one known action: its registered name, its Plugin and its declaration.
type Action struct {
	// Plugin is the name of the Plugin object that provides the action.
	Plugin string
	// Name is the registered name, such as example.io/freeze.
	Name string
	// Side is when the action runs.
	Side Side
	// Kind is the kind of the action, for sides with several kinds.
	Kind string
	// Async is set for an action on objects that starts operations which continue by themselves. It
	// runs after the actions that are not async.
	Async bool
	// Order sorts actions; lower runs earlier, and later on the Post side.
	Order int32
	// Selector restricts the action to parents with matching labels; nil matches all.
	Selector labels.Selector
	// Timeout is the time limit of one attempt.
	Timeout time.Duration
	// Retries is how often a failed attempt is retried.
	Retries int32
	// IgnoreUnreachable omits the action if its plugin is not ready, and ignores an unreachable
	// plugin and timeouts later.
	IgnoreUnreachable bool
	// FailOnInterruption fails the action if the operator stops while it runs.
	FailOnInterruption bool
	// RunOn lists the outcomes after which an unpaired Post action runs. Empty means all.
	RunOn []string
	// AfterDataCaptured runs a Post action as soon as all data is captured.
	AfterDataCaptured bool
	// Operation is how operations that the action starts are polled.
	Operation OperationPolicy
	// NotReady is why the plugin cannot be called now; empty means it can.
	NotReady string
}

// OperationPolicy configures the polling of operations. A zero field uses the operator's default; a
// zero StallTimeout disables it.
type OperationPolicy struct{ Timeout, StallTimeout, PollInterval time.Duration }

// BrokenPlugin is a Plugin that was never loaded, so its actions are unknown.
type BrokenPlugin struct {
	// Plugin is the name of the Plugin object.
	Plugin string
	// Message describes the problem.
	Message string
	// Ignore omits the Plugin with a warning instead of failing validation.
	Ignore bool
}

// Input is everything that a plan is built from.
type Input struct {
	// Points names the sides. In lower case, the names of the first two are the suffixes of skip
	// annotations.
	Points Points
	// Actions are all known actions of Plugins that are not suspended, older
	// Plugins first.
	Actions []Action
	// BrokenPlugins are the Plugins whose actions are unknown.
	BrokenPlugins []BrokenPlugin
	// Labels and Annotations are those of the parent.
	Labels, Annotations map[string]string
	// Parameters are the parameters of actions, by registered name.
	Parameters map[string]map[string]string
}

// PlannedAction is one planned execution.
type PlannedAction struct {
	Action
	// Cleanup marks the Post side of a pair: it runs whenever its Pre side was started.
	Cleanup bool
	// Parameters are passed to the action.
	Parameters map[string]string
}

// SkippedAction is a known action that the parent skips by annotation, or that is skipped because
// its other half is.
type SkippedAction struct {
	Name   string
	Side   Side
	Reason string
}

// Plan lists what runs, in order.
type Plan struct {
	Pre, Post []PlannedAction
	// Items are the actions that run on each of their objects.
	Items   []PlannedAction
	Skipped []SkippedAction
	// Errors are all reasons why the parent cannot run.
	Errors []string
	// Warnings are reported as events and do not stop anything.
	Warnings []string
	// Recoverable are those of the Errors and Warnings that a Plugin may still resolve by becoming
	// ready or by being created.
	Recoverable []string
}

// BuildPlan builds the plan. It never fails: problems are in Plan.Errors.
func BuildPlan(in Input) Plan {
	p := planner{in: in, skips: parseSkipAnnotations(in.Points, in.Annotations)}
	broken := p.brokenPluginErrors()
	p.plan.Errors = append(p.plan.Errors, broken...)
	actions := p.dropDuplicateActions(in.Actions)
	p.plan.Errors = append(p.plan.Errors, p.skips.invalidValueErrors(actions)...)
	p.plan.Warnings = append(p.plan.Warnings, p.skips.unknownActionWarnings(actions)...)
	unused := unusedParameterWarnings(in.Parameters, actions)
	p.plan.Warnings = append(p.plan.Warnings, unused...)
	p.plan.Recoverable = slices.Concat(broken, unused)

	provided := actionNamesOnSide(Pre, actions)
	p.plan.Pre = p.planSide(Pre, actions, func(a Action) bool { return p.matchesSelector(a) })
	planned := map[string]bool{}
	for _, s := range p.plan.Pre {
		planned[s.Name] = true
	}
	// The other half of a pair is not optional: it undoes what was done.
	p.plan.Post = p.planSide(Post, actions, func(a Action) bool {
		return planned[a.Name] || (!provided[a.Name] && p.matchesSelector(a))
	})
	for i := range p.plan.Post {
		p.plan.Post[i].Cleanup = planned[p.plan.Post[i].Name]
	}
	p.skipUnneededPostActions(actions, planned)
	p.rejectUnpairedActions(actions, planned)
	slices.Reverse(p.plan.Post)
	slices.SortStableFunc(p.plan.Post, compareDataCapturedFirst)
	p.plan.Items = p.planSide(Item, actions, p.matchesSelector)
	return p.plan
}

type planner struct {
	in    Input
	skips skipAnnotations
	plan  Plan
}

func (p *planner) brokenPluginErrors() []string {
	var errs []string
	for _, b := range p.in.BrokenPlugins {
		if b.Ignore {
			p.addWarning("Plugin %s is skipped: it was never loaded (%s), and its failurePolicy is Ignore", b.Plugin, b.Message)
			continue
		}
		errs = append(errs, fmt.Sprintf(
			"Plugin %s was never loaded, so its actions are unknown: %s; fix it, set spec.suspend, or set its failurePolicy to Ignore",
			b.Plugin, b.Message))
	}
	return errs
}

// dropDuplicateActions drops actions that a newer Plugin registered again: the older Plugin keeps
// working.
func (p *planner) dropDuplicateActions(actions []Action) []Action {
	type key struct {
		name, kind string
		side       Side
	}
	owner := map[key]string{}
	var kept []Action
	for _, a := range actions {
		k := key{a.Name, a.Kind, a.Side}
		if first, taken := owner[k]; taken {
			if !p.matchesSelector(a) {
				continue
			}
			p.addWarning("%s action %s of Plugin %s is skipped: Plugin %s, which is older, already registered that name",
				p.in.Points.SideName(a.Side), a.Name, a.Plugin, first)
			continue
		}
		owner[k] = a.Plugin
		kept = append(kept, a)
	}
	return kept
}

func actionNamesOnSide(side Side, actions []Action) map[string]bool {
	names := map[string]bool{}
	for _, a := range actions {
		if a.Side == side {
			names[a.Name] = true
		}
	}
	return names
}

func (p *planner) matchesSelector(a Action) bool {
	return a.Selector == nil || a.Selector.Matches(labels.Set(p.in.Labels))
}

// planSide returns the wanted actions of one side, in the order of their Pre side.
func (p *planner) planSide(side Side, actions []Action, wanted func(Action) bool) []PlannedAction {
	var steps []PlannedAction
	for _, a := range actions {
		if a.Side != side || !wanted(a) {
			continue
		}
		if p.skips.shouldSkip(a) {
			p.recordSkipped(a, "annotation "+p.in.Points.SkipAnnotationKey(a.Name, side))
			continue
		}
		if a.NotReady != "" {
			p.recordNotReady(a)
			continue
		}
		steps = append(steps, PlannedAction{Action: a, Parameters: p.in.Parameters[a.Name]})
	}
	slices.SortStableFunc(steps, func(a, b PlannedAction) int {
		return cmp.Or(compareAsyncLast(a, b), cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	return steps
}

// compareDataCapturedFirst sorts the actions that wait for captured data before those that wait for
// the outcome, which is known later.
func compareDataCapturedFirst(a, b PlannedAction) int {
	switch {
	case a.AfterDataCaptured == b.AfterDataCaptured:
		return 0
	case a.AfterDataCaptured:
		return -1
	default:
		return 1
	}
}

// compareAsyncLast sorts actions that start operations after those that change the objects of the
// operations.
func compareAsyncLast(a, b PlannedAction) int {
	switch {
	case a.Async == b.Async:
		return 0
	case a.Async:
		return 1
	default:
		return -1
	}
}

func (p *planner) recordSkipped(a Action, reason string) {
	p.plan.Skipped = append(p.plan.Skipped, SkippedAction{a.Name, a.Side, reason})
}

// recordNotReady records that an action whose plugin is not ready stops the parent, or that the
// parent continues without it.
func (p *planner) recordNotReady(a Action) {
	what := fmt.Sprintf("%s action %s cannot be called: Plugin %s is not ready (%s)",
		p.in.Points.SideName(a.Side), a.Name, a.Plugin, a.NotReady)
	if a.IgnoreUnreachable {
		p.addWarning("%s; it is skipped because its failurePolicy is Ignore", what)
		return
	}
	remedy := "set its failurePolicy to Ignore"
	if a.Side != Item && p.in.Points.Post != "" { // a DeletionRun has no annotations that skip actions
		remedy = fmt.Sprintf("skip the action with the annotation %s: skip", p.in.Points.SkipAnnotationKey(a.Name, a.Side))
	}
	p.addRecoverableError(fmt.Sprintf("%s; fix the Plugin, suspend it, or %s", what, remedy))
}

// skipUnneededPostActions records the Post halves whose Pre half was selected and does not run:
// what was never started needs no clean-up.
func (p *planner) skipUnneededPostActions(actions []Action, planned map[string]bool) {
	selected := map[string]bool{}
	for _, a := range actions {
		if a.Side == Pre && p.matchesSelector(a) {
			selected[a.Name] = true
		}
	}
	for _, a := range actions {
		if a.Side == Post && selected[a.Name] && !planned[a.Name] {
			p.recordSkipped(a, "its "+p.in.Points.SideName(Pre)+" action does not run")
		}
	}
}

// rejectUnpairedActions rejects a plan with an action that nothing undoes: the Pre half of a pair
// runs, and the Post half was omitted because its plugin is not ready. A user who skips the Post
// half does so on purpose.
func (p *planner) rejectUnpairedActions(actions []Action, planned map[string]bool) {
	runs := map[string]bool{}
	for _, s := range p.plan.Post {
		runs[s.Name] = true
	}
	for _, a := range actions {
		if a.Side == Post && planned[a.Name] && !runs[a.Name] && !p.skips.shouldSkip(a) && a.IgnoreUnreachable {
			p.addRecoverableError(fmt.Sprintf(
				"%s action %s would run without the %s action that undoes it, which cannot be called (%s); fix Plugin %s, or skip both",
				p.in.Points.SideName(Pre), a.Name, p.in.Points.SideName(Post), a.NotReady, a.Plugin))
		}
	}
}

// addRecoverableError adds an error that disappears when a Plugin becomes ready.
func (p *planner) addRecoverableError(message string) {
	p.plan.Errors = append(p.plan.Errors, message)
	p.plan.Recoverable = append(p.plan.Recoverable, message)
}

func (p *planner) addWarning(format string, args ...any) {
	p.plan.Warnings = append(p.plan.Warnings, fmt.Sprintf(format, args...))
}

func unusedParameterWarnings(parameters map[string]map[string]string, actions []Action) []string {
	known := map[string]bool{}
	for _, a := range actions {
		known[a.Name] = true
	}
	var out []string
	for name := range parameters {
		if !known[name] {
			out = append(out, fmt.Sprintf("spec.parameters names %q, which no Plugin provides; its values are ignored", name))
		}
	}
	slices.Sort(out)
	return out
}
