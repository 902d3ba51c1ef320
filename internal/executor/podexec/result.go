// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// answer turns the results of all pods into one.
func (r *run) answer() (executor.Answer, error) {
	if len(r.results) == 0 {
		return r.missing()
	}
	if r.Target == Any {
		return r.answerOfAny()
	}
	text := r.summary()
	switch {
	case r.count(gone) == len(r.results) && r.OnMissing == Fail:
		return executor.Answer{}, r.fail(executor.Unreachable, "the command ran to its end in no pod: "+text)
	case r.count(failed) > 0:
		return executor.Answer{}, r.fail(executor.Failed, text)
	case r.count(unreachable) > 0:
		return executor.Answer{}, r.fail(executor.Unreachable, text)
	}
	answer := executor.Answer{Message: r.shown(text)}
	for _, res := range r.results {
		answer.Again = max(answer.Again, res.answer.again)
	}
	if answer.Again > 0 {
		return answer, nil
	}
	answer.Outputs = r.outputs()
	if err := hook.ValidateOutputs(answer.Outputs); err != nil {
		return executor.Answer{}, r.fail(executor.Failed,
			fmt.Sprintf("the outputs of %s together, each with the pod's name in front, are not allowed: %v", pods(len(r.results)), err))
	}
	return answer, nil
}

// answerOfAny is what the last pod answered: the others were not reached.
func (r *run) answerOfAny() (executor.Answer, error) {
	last := r.results[len(r.results)-1]
	switch {
	case last.outcome == succeeded || last.outcome == unfinished:
		message := last.answer.message
		if message == "" {
			message = "ok in " + nameOf(last.pod)
		}
		return executor.Answer{Message: r.shown(message), Outputs: last.answer.outputs, Again: last.answer.again}, nil
	case last.started:
		return executor.Answer{}, r.fail(executor.Failed, nameOf(last.pod)+": "+last.text)
	}
	kind := executor.Unreachable
	if r.count(failed) > 0 {
		kind = executor.Failed
	}
	return executor.Answer{}, r.fail(kind, "the command could be started in no pod: "+r.summary())
}

// missing is the answer without a pod that runs.
func (r *run) missing() (executor.Answer, error) {
	text := fmt.Sprintf("no pod that %q finds runs in the %s included", r.Selector.String(), namespaces(len(r.namespaces)))
	if len(r.left) > 0 {
		text += fmt.Sprintf(" (%s found: %s)", pods(len(r.left)),
			strings.Join(slices.Compact(slices.Sorted(maps.Values(r.left))), ", "))
	}
	if r.OnMissing != Fail {
		return executor.Answer{Message: r.shown(text + ": nothing was done")}, nil
	}
	return executor.Answer{}, r.fail(executor.Unreachable, text+": check the selector, and whether the application is up")
}

func (r *run) fail(kind executor.Kind, text string) error {
	var errs []error
	for _, res := range r.results {
		errs = append(errs, res.err)
	}
	return executor.NewError(kind, r.call, r.Redactor.String(text), errors.Join(errs...))
}

func (r *run) shown(text string) string { return executor.OneLine(r.Redactor.String(text)) }

func (r *run) count(o outcome) int {
	n := 0
	for _, res := range r.results {
		if res.outcome == o {
			n++
		}
	}
	return n
}

// summary is "3 pods: 2 ok, 1 failed (shop/db-0: exit code 3: disk full)", what matters
// most first.
func (r *run) summary() string {
	var counts, details []string
	for _, o := range []outcome{succeeded, unfinished, gone, unreachable, failed} {
		if n := r.count(o); n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, o))
		}
	}
	ordered := slices.Clone(r.results)
	slices.SortStableFunc(ordered, func(a, b *result) int { return int(b.outcome - a.outcome) })
	for _, res := range ordered {
		if text := res.describe(); text != "" {
			details = append(details, nameOf(res.pod)+": "+text)
		}
	}
	text := pods(len(r.results)) + ": " + strings.Join(counts, ", ")
	if len(details) > 0 {
		text += " (" + strings.Join(details, "; ") + ")"
	}
	return text
}

// describe says what there is to say about one pod, "" if that is nothing.
func (res *result) describe() string {
	switch res.outcome {
	case succeeded, unfinished:
		return res.answer.message
	case gone:
		return "is gone; " + res.text
	default:
		return res.text
	}
}

// String names an outcome in a summary.
func (o outcome) String() string {
	switch o {
	case succeeded:
		return "ok"
	case unfinished:
		return "not done yet"
	case gone:
		return "gone"
	case unreachable:
		return "not reached"
	default:
		return "failed"
	}
}

// outputs merges those of all pods. A key is the pod's name, a dot, and the command's
// key; a name that two of the pods have gets the namespace's in front.
func (r *run) outputs() map[string]string {
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

func pods(n int) string { return plural(n, "pod") }

func namespaces(n int) string { return plural(n, "namespace") }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
