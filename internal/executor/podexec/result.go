// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// combineResults combines the results of all pods.
func (r *invocation) combineResults() (executor.Answer, error) {
	if len(r.results) == 0 {
		return r.answerWithoutPods()
	}
	if r.Target == Any {
		return r.answerFromLastPod()
	}
	text := r.summarizeResults()
	switch {
	case r.CommandFor != nil && r.countOutcome(outcomeUnfinished) > 0: // failures must not end the wait of others
	case r.countOutcome(outcomePodGone) == len(r.results) && r.OnMissing == Fail:
		return executor.Answer{}, r.newError(executor.Unreachable, "the command did not complete in any pod: "+text)
	case r.countOutcome(outcomeFailed) > 0:
		return executor.Answer{}, r.newError(executor.Failed, text)
	case r.countOutcome(outcomeUnreachable) > 0:
		return executor.Answer{}, r.newError(executor.Unreachable, text)
	}
	answer := executor.Answer{Message: r.redactToLine(text), Ignored: r.countOutcome(outcomeIgnored) > 0}
	for _, res := range r.results {
		answer.RetryAfter = max(answer.RetryAfter, res.answer.retryAfter)
	}
	if answer.RetryAfter > 0 {
		return answer, nil
	}
	answer.Outputs = r.mergedOutputs()
	if err := hook.ValidateOutputs(answer.Outputs); err != nil {
		return executor.Answer{}, r.newError(executor.Failed,
			fmt.Sprintf("the outputs of %s together, each with the pod's name in front, are not allowed: %v", podCountText(len(r.results)), err))
	}
	return answer, nil
}

// answerFromLastPod returns the answer of the last pod: the others were not reached.
func (r *invocation) answerFromLastPod() (executor.Answer, error) {
	last := r.results[len(r.results)-1]
	switch {
	case last.outcome == outcomeSucceeded || last.outcome == outcomeUnfinished:
		message := last.answer.message
		if message == "" {
			message = "ok in " + namespacedName(last.pod)
		}
		return executor.Answer{Message: r.redactToLine(message), Outputs: last.answer.outputs, RetryAfter: last.answer.retryAfter}, nil
	case last.started:
		return executor.Answer{}, r.newError(executor.Failed, namespacedName(last.pod)+": "+last.text)
	}
	kind := executor.Unreachable
	if r.countOutcome(outcomeFailed) > 0 {
		kind = executor.Failed
	}
	return executor.Answer{}, r.newError(kind, "the command could not be started in any pod: "+r.summarizeResults())
}

// answerWithoutPods returns the answer if no pod runs.
func (r *invocation) answerWithoutPods() (executor.Answer, error) {
	text := fmt.Sprintf("no pod that matches %q runs in the %s included", r.Selector.String(), namespaceCountText(len(r.namespaces)))
	if r.CommandFor != nil {
		text = fmt.Sprintf("no pod with a command runs in the %s included", namespaceCountText(len(r.namespaces)))
	}
	if len(r.skipReasons) > 0 {
		text += fmt.Sprintf(" (%s found: %s)", podCountText(len(r.skipReasons)),
			strings.Join(slices.Compact(slices.Sorted(maps.Values(r.skipReasons))), ", "))
	}
	if r.OnMissing != Fail {
		return executor.Answer{Message: r.redactToLine(text + ": nothing was done")}, nil
	}
	return executor.Answer{}, r.newError(executor.Unreachable, text+": check the selector, and whether the application is up")
}

func (r *invocation) newError(kind executor.ErrorKind, text string) error {
	var errs []error
	for _, res := range r.results {
		errs = append(errs, res.err)
	}
	return executor.NewError(kind, r.call, r.Redactor.String(text), errors.Join(errs...))
}

func (r *invocation) redactToLine(text string) string {
	return executor.OneLine(r.Redactor.String(text))
}

func (r *invocation) countOutcome(o outcome) int {
	n := 0
	for _, res := range r.results {
		if res.outcome == o {
			n++
		}
	}
	return n
}

// summarizeResults returns "3 pods: 2 ok, 1 failed (shop/db-0: exit code 3: disk full)", with the
// most important results first.
func (r *invocation) summarizeResults() string {
	var counts, details []string
	for _, o := range []outcome{outcomeSucceeded, outcomeUnfinished, outcomeIgnored, outcomePodGone, outcomeUnreachable, outcomeFailed} {
		if n := r.countOutcome(o); n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, o))
		}
	}
	ordered := slices.Clone(r.results)
	slices.SortStableFunc(ordered, func(a, b *podResult) int { return int(b.outcome - a.outcome) })
	for _, res := range ordered {
		if text := res.describeResult(); text != "" {
			details = append(details, namespacedName(res.pod)+": "+text)
		}
	}
	text := podCountText(len(r.results)) + ": " + strings.Join(counts, ", ")
	if len(details) > 0 {
		text += " (" + strings.Join(details, "; ") + ")"
	}
	return text
}

// describeResult describes the result of one pod; "" if there is nothing to say.
func (res *podResult) describeResult() string {
	switch res.outcome {
	case outcomeSucceeded, outcomeUnfinished:
		return cmp.Or(res.answer.message, res.text)
	case outcomePodGone:
		return "is gone; " + res.text
	default:
		return res.text
	}
}

// String returns the outcome as it appears in a summary.
func (o outcome) String() string {
	switch o {
	case outcomeSucceeded:
		return "ok"
	case outcomeUnfinished:
		return "not done yet"
	case outcomeIgnored:
		return "failed and ignored"
	case outcomePodGone:
		return "gone"
	case outcomeUnreachable:
		return "not reached"
	default:
		return "failed"
	}
}

// mergedOutputs merges the outputs of all pods. A key is the pod's name, a dot, and the command's
// key. If two of the pods have the same name, the namespace is put in front.
func (r *invocation) mergedOutputs() map[string]string {
	names := map[string]int{}
	for _, res := range r.results {
		names[res.pod.Name]++
	}
	var merged map[string]string
	for _, res := range r.results {
		prefix := res.pod.Name + "."
		if names[res.pod.Name] > 1 {
			prefix = res.pod.Namespace + "." + prefix
		}
		for key, value := range res.answer.outputs {
			if merged == nil {
				merged = map[string]string{}
			}
			merged[prefix+key] = value
		}
	}
	return merged
}

func podCountText(n int) string { return countText(n, "pod") }

func namespaceCountText(n int) string { return countText(n, "namespace") }

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
