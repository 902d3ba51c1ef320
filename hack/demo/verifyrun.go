// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const actionName = "example.io/freeze"

// check is one requirement on the facts F.
type check[F any] struct {
	what string
	// holds returns what is wrong.
	holds func(facts F) error
}

// verify prints the result of every check. It fails if one of them does.
func verify[F any](p *printer, facts F, all []check[F]) error {
	var failed int
	for _, check := range all {
		if err := check.holds(facts); err != nil {
			failed++
			p.say("FAIL  %s:", check.what)
			p.text(deeper + strings.ReplaceAll(err.Error(), "\n", "\n"+deeper))
			continue
		}
		p.say("ok    %s.", check.what)
	}
	p.gap()
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(all))
	}
	p.say("All %d checks passed.", len(all))
	return nil
}

func (r *ran) checkOutcome() error {
	s := r.of.Run()
	if phase := r.of.GetPhase(); phase != v1alpha1.RunPhaseCompleted || s.Errors != 0 || s.Warnings != 0 {
		return fmt.Errorf("it is %s with %d errors and %d warnings: %s", phase, s.Errors, s.Warnings, s.Message)
	}
	return nil
}

func (r *ran) checkConditions() error {
	var errs []error
	all := r.of.GetConditions()
	for _, name := range []string{v1alpha1.ConditionSucceeded, v1alpha1.ConditionReady, v1alpha1.ConditionPostActionsSucceeded} {
		if !meta.IsStatusConditionTrue(all, name) {
			errs = append(errs, fmt.Errorf("the condition %s is not True", name))
		}
	}
	for _, name := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionCleanupOwed} {
		if c := meta.FindStatusCondition(all, name); c != nil && c.Status != "False" {
			errs = append(errs, fmt.Errorf("the condition %s is %s: %s", name, c.Status, c.Message))
		}
	}
	return errors.Join(errs...)
}

func (r *ran) checkActions() error {
	first, second := r.of.ActionsStatuses()
	pre, err := onlyAction(*first)
	if err != nil {
		return fmt.Errorf("the %s actions: %w", r.kind.PreHookPoint, err)
	}
	post, err := onlyAction(*second)
	if err != nil {
		return fmt.Errorf("the %s actions: %w", r.kind.PostHookPoint, err)
	}
	done := r.of.Run().CompletionTimestamp
	if done == nil || pre.CompletionTimestamp.After(done.Time) || post.StartTimestamp.Before(done) {
		return fmt.Errorf("the first one ended at %v, the work between them at %v, and the second one began at %v",
			pre.CompletionTimestamp, done, post.StartTimestamp)
	}
	return nil
}

// onlyAction returns the one action of a list, if it is Completed.
func onlyAction(list *[]v1alpha1.ActionStatus) (v1alpha1.ActionStatus, error) {
	if list == nil || len(*list) != 1 {
		return v1alpha1.ActionStatus{}, fmt.Errorf("want one action, got %v", list)
	}
	action := (*list)[0]
	if action.PluginName != actionName || action.Phase != v1alpha1.ActionPhaseCompleted ||
		action.StartTimestamp == nil || action.CompletionTimestamp == nil {
		return action, fmt.Errorf("%s is %q: %s", action.PluginName, action.Phase, action.Message)
	}
	return action, nil
}

func (r *ran) checkRuns() error {
	var errs []error
	var points []string
	for _, hookRun := range r.runs {
		points = append(points, string(hookRun.Spec.Hook)+" "+hookRun.Spec.ActionName)
		if s := hookRun.Status; s.Phase != v1alpha1.HookRunPhaseCompleted || s.Attempt != 1 || s.Duration == "" {
			errs = append(errs, fmt.Errorf("%s is %s after %d attempts and %q: %s",
				hookRun.Name, s.Phase, s.Attempt, s.Duration, s.Message))
		}
		if len(hookRun.OwnerReferences) != 1 || hookRun.OwnerReferences[0].UID != r.of.GetUID() {
			errs = append(errs, fmt.Errorf("%s does not belong to the %s", hookRun.Name, r.kind.Name))
		}
	}
	if want := []string{string(r.kind.PreHookPoint) + " " + actionName, string(r.kind.PostHookPoint) + " " + actionName}; !slices.Equal(points, want) {
		errs = append(errs, fmt.Errorf("the HookRuns are for %q, want %q", points, want))
	}
	return errors.Join(errs...)
}

// checkLine returns an error unless one line has all parts.
func checkLine(log []string, parts ...string) error {
	for _, line := range log {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return nil
		}
	}
	return fmt.Errorf("no line has %q:\n%s", parts, strings.Join(log, ""))
}

func (r *ran) checkThawed() error {
	if len(r.markers) > 0 {
		return fmt.Errorf("the example plugin still has %q", r.markers)
	}
	return r.markersErr
}
