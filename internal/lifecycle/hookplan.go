// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/hook"
)

// defaultDeleteRetries is how often a failed DeleteAction is retried if its declaration sets no
// retries. What a DeleteAction does not remove is left behind permanently.
const defaultDeleteRetries = 2

// defaultActionTimeout is the timeout of an action whose declaration sets none.
const defaultActionTimeout = 10 * time.Minute

// BuildHookPlan returns the plan of a run, built from what the Plugins provide. If loading is
// not empty, it names a Plugin that is still starting, and the plan must not be used.
func (k KindTraits) BuildHookPlan(s Object, plugins []v1alpha1.Plugin) (plan hook.Plan, loading string) {
	_, parameters := s.Desired()
	return k.BuildHookPlanFor(s.GetLabels(), s.GetAnnotations(), parameters, plugins)
}

// BuildHookPlanFor is BuildHookPlan for an object with the given labels, annotations and
// parameters.
func (k KindTraits) BuildHookPlanFor(
	labels, annotations map[string]string, parameters map[string]v1alpha1.ParameterSet, plugins []v1alpha1.Plugin,
) (plan hook.Plan, loading string) {
	plugins = slices.Clone(plugins)
	slices.SortFunc(plugins, func(a, b v1alpha1.Plugin) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	in := hook.Input{
		Points: k.hookPoints(), Labels: labels, Annotations: annotations,
		Parameters: map[string]map[string]string{},
	}
	for name, values := range parameters {
		in.Parameters[name] = ToStringMap(values)
	}
	for i := range plugins {
		p := &plugins[i]
		if p.Spec.Suspend || !p.DeletionTimestamp.IsZero() {
			continue
		}
		if !isLoadFinished(p) {
			return hook.Plan{}, p.Name
		}
		problem := notReadyReason(p)
		if problem != "" && len(p.Status.Actions) == 0 {
			in.BrokenPlugins = append(in.BrokenPlugins, hook.BrokenPlugin{
				Plugin: p.Name, Message: problem, Ignore: p.Spec.FailurePolicy == v1alpha1.FailurePolicyIgnore,
			})
			continue
		}
		in.Actions = append(in.Actions, k.actionsForPlugin(p, problem)...)
	}
	plan = hook.BuildPlan(in)
	if n := len(plan.Items); n > maxItemActions {
		plan.Errors = append(plan.Errors, fmt.Sprintf("there are %d %s actions, at most %d can be called in one run; suspend Plugins, or give actions selectors",
			n, k.hookPoints().SideName(hook.Item), maxItemActions))
	}
	return plan, ""
}

// maxItemActions is how many item actions the status can hold.
const maxItemActions = 256

// isLoadFinished reports whether an attempt to load the current generation of a Plugin has
// ended, successfully or not.
func isLoadFinished(p *v1alpha1.Plugin) bool {
	ready := conditions.Get(p, v1alpha1.ConditionReady)
	return ready != nil && ready.ObservedGeneration == p.Generation &&
		(ready.Status == metav1.ConditionTrue || conditions.IsTrue(p, v1alpha1.ConditionStalled))
}

// notReadyReason returns why a Plugin cannot be called; it is empty if the Plugin is ready.
func notReadyReason(p *v1alpha1.Plugin) string {
	ready := conditions.Get(p, v1alpha1.ConditionReady)
	if ready.Status == metav1.ConditionTrue {
		return ""
	}
	return ready.Message
}

// actionsForPlugin returns the actions for this kind of run that a Plugin provides or declares.
func (k KindTraits) actionsForPlugin(p *v1alpha1.Plugin, problem string) []hook.Action {
	type key struct {
		kind v1alpha1.ActionKind
		name string
	}
	declared := map[key]v1alpha1.PluginAction{}
	for _, d := range p.Spec.Actions {
		declared[key{d.Kind, d.Name}] = d
	}
	var actions []hook.Action
	for _, provided := range p.Status.Actions {
		id := key{provided.Kind, provided.Name}
		if side, ok := k.sideOfActionKind(provided.Kind); ok {
			actions = append(actions, k.mergeDeclaration(p, id.kind, provided.Name, side, declared[id], problem))
		}
		delete(declared, id)
	}
	for _, d := range p.Spec.Actions {
		_, missing := declared[key{d.Kind, d.Name}]
		if side, ok := k.sideOfActionKind(d.Kind); ok && missing {
			actions = append(actions, k.mergeDeclaration(p, d.Kind, d.Name, side, d, cmp.Or(problem,
				fmt.Sprintf("the plugin does not provide a %s of that name; fix spec.actions", d.Kind))))
		}
	}
	return actions
}

// mergeDeclaration merges what a plugin provides with its declaration in the Plugin. The zero
// declaration stands for the defaults.
func (k KindTraits) mergeDeclaration(
	p *v1alpha1.Plugin, kind v1alpha1.ActionKind, name string, side hook.Side, declared v1alpha1.PluginAction, problem string,
) hook.Action {
	policy := cmp.Or(declared.FailurePolicy, p.Spec.FailurePolicy, v1alpha1.FailurePolicyFail)
	action := hook.Action{
		Plugin: p.Name, Name: name, Side: side, Kind: string(kind), Async: kind == k.AsyncItemActionKind,
		Order: declared.Order, Timeout: defaultActionTimeout,
		Retries: declared.Retries, IgnoreUnreachable: policy == v1alpha1.FailurePolicyIgnore,
		FailOnInterruption: declared.OnInterruption == v1alpha1.InterruptionPolicyFail,
		RunOn:              ToStrings(declared.RunOn), NotReady: problem,
		AfterDataCaptured: declared.RunAfter == v1alpha1.RunAfterDataCaptured,
	}
	if k.HasSingleHookPoint() && action.Retries == 0 {
		action.Retries = defaultDeleteRetries
	}
	if declared.Timeout != nil && declared.Timeout.Duration > 0 {
		action.Timeout = declared.Timeout.Duration
	}
	if o := declared.Operation; o != nil {
		action.Operation = hook.OperationPolicy{
			Timeout: toDuration(o.Timeout), StallTimeout: toDuration(o.StallTimeout), PollInterval: toDuration(o.PollInterval),
		}
	}
	if declared.Selector == nil {
		return action
	}
	selector, err := metav1.LabelSelectorAsSelector(declared.Selector)
	if err != nil {
		selector = labels.Everything() // an action with an invalid selector must not be skipped silently
		action.NotReady = fmt.Sprintf("its selector cannot be read: %v", err)
	}
	action.Selector = selector
	return action
}

// toDuration returns a duration that the API accepts; 0 if it is not set.
func toDuration(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return clampDuration(d.Duration)
}

// maxDuration is the longest duration that the API accepts: hours have at most five digits.
const maxDuration = 99_999 * time.Hour

// clampDuration returns the nearest duration whose text form the API accepts. The API supports
// nothing below milliseconds, and "99999h60m" would be written back as 100000h.
func clampDuration(d time.Duration) time.Duration {
	return min(max(d.Truncate(time.Millisecond), time.Millisecond), maxDuration)
}

// ToStrings converts values of a string type to strings.
func ToStrings[S ~string](values []S) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// ToStringMap converts the values of a map to strings.
func ToStringMap[V ~string](values map[string]V) map[string]string {
	out := make(map[string]string, len(values))
	for k, v := range values {
		out[k] = string(v)
	}
	return out
}
