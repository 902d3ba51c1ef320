// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// PodCommand is the command of one pod, in an action whose pods have commands of their own; see
// Options.CommandFor. It gets no input, and its output is only logged.
type PodCommand struct {
	// Container is the name of the container.
	Container string
	// Annotation is the name of the annotation that Command is from. Messages have it instead of the
	// command, which may contain a password.
	Annotation string
	// Command is the program and its arguments.
	Command []string
	// Timeout is how long the command may take, at most MaxTimeout if that is set.
	Timeout, MaxTimeout time.Duration
	// Tried reports that the command ran before, without success: others come first.
	Tried bool
	// Undoes reports that the pod may have an effect that the command undoes; see Undo.
	Undoes bool
	// IgnoreFailure makes a failure a remark in the answer.
	IgnoreFailure bool
	// Problem, if not empty, is why the command cannot be run, which is a failure.
	Problem string
	// Wait, if set, waits for the container instead of failing.
	Wait *ContainerWait
}

// ContainerWait is how a command waits for its container.
type ContainerWait struct {
	// Ready waits until the container is ready, and not only until it runs.
	Ready bool
	// Timeout is how long to wait, 0 for no limit, and Since when that began.
	Timeout time.Duration
	Since   time.Time
}

// PodOutcome is what became of a command in one pod.
type PodOutcome struct {
	// Started reports that the command may have run, and Done that it need not run again in this pod.
	Started, Done bool
	// Failed describes a failure other than that the command was not reached, and Ignored one that is
	// ignored; "" if there is none.
	Failed, Ignored string
}

// A call that waits for containers is repeated after as long as it has waited, within these limits: each
// one lists pods.
const (
	minWaitInterval = 5 * time.Second
	maxWaitInterval = time.Minute
)

// compareUntriedFirst defines the order in which commands of pods are run: those that hang must not keep
// others from being run in any attempt.
func compareUntriedFirst(a, b target) int {
	switch {
	case a.isTried() == b.isTried():
		return 0
	case b.isTried():
		return -1
	}
	return 1
}

func (t target) isTried() bool { return t.command != nil && t.command.Tried }

// newTarget inspects a candidate pod.
func (r *invocation) newTarget(pod *corev1.Pod) target {
	if r.CommandFor == nil {
		return newTarget(pod, r.Container)
	}
	command := r.CommandFor(pod)
	t := newTarget(pod, command.Container)
	t.command = command
	return t
}

// isUndoing reports whether the command of a pod undoes something.
func (r *invocation) isUndoing(pod *corev1.Pod) bool {
	return r.OnMissing == Undo && (r.CommandFor == nil || r.CommandFor(pod).Undoes)
}

// isWaiting reports whether a pod that does not run is a candidate, because its command waits for it.
func (r *invocation) isWaiting(pod *corev1.Pod) bool {
	return r.CommandFor != nil && r.CommandFor(pod).Wait != nil && !isTerminatingOrTerminal(pod)
}

// runOwnCommand runs the command of a pod that has its own, and sets the result.
func (r *invocation) runOwnCommand(ctx context.Context, res *podResult) {
	c := res.command
	switch {
	case c.Problem != "":
		res.outcome, res.text = outcomeFailed, c.Problem
	case res.containerMissing:
		res.outcome, res.text = outcomeFailed, fmt.Sprintf("has no container %q", res.container)
	case c.Wait != nil && !res.isUp(c.Wait.Ready):
		r.waitForContainer(res)
	case res.notRunningReason != "":
		res.text = fmt.Sprintf("its container %s does not run: %s", res.container, res.notRunningReason)
	default:
		r.runWithTimeout(ctx, res)
	}
	if c.IgnoreFailure && (res.outcome == outcomeFailed || res.outcome == outcomeUnreachable) && ctx.Err() == nil {
		res.outcome = outcomeIgnored
	}
}

// isUp reports whether the container of a target runs or, if that is required, is ready.
func (t target) isUp(ready bool) bool {
	if t.notRunningReason != "" {
		return false
	}
	return !ready || slices.ContainsFunc(slices.Concat(t.pod.Status.ContainerStatuses, t.pod.Status.InitContainerStatuses),
		func(status corev1.ContainerStatus) bool { return status.Name == t.container && status.Ready })
}

// waitForContainer sets the result of a command that cannot run yet.
func (r *invocation) waitForContainer(res *podResult) {
	wait, state := res.command.Wait, "does not run"
	if wait.Ready {
		state = "is not ready"
	}
	waited := time.Since(wait.Since)
	if wait.Timeout > 0 && waited >= wait.Timeout {
		res.outcome, res.text = outcomeFailed, fmt.Sprintf("its container %s %s after %s", res.container, state, wait.Timeout)
		return
	}
	res.outcome, res.text = outcomeUnfinished, fmt.Sprintf("its container %s %s yet", res.container, state)
	res.answer.retryAfter = min(max(waited, minWaitInterval), maxWaitInterval)
}

// runWithTimeout runs the command of a pod within its own timeout.
func (r *invocation) runWithTimeout(ctx context.Context, res *podResult) {
	timeout, note := res.command.Timeout, ""
	if most := res.command.MaxTimeout; most > 0 && timeout > most {
		timeout, note = most, ", the most that the action allows"
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.execute(limited, res, res.command.Command, nil)
	if limited.Err() != nil && ctx.Err() == nil && res.connectionLost {
		res.connectionLost = false
		res.text = fmt.Sprintf("the command did not end within %s%s; it may still run in container %s", timeout, note, res.container)
	}
}

// reportOutcomes passes on what became of the commands.
func (r *invocation) reportOutcomes() {
	if r.OnOutcome == nil {
		return
	}
	for _, res := range r.results {
		r.OnOutcome(res.pod, res.toPodOutcome())
	}
}

// toPodOutcome returns what an action needs to know about a result.
func (res *podResult) toPodOutcome() PodOutcome {
	outcome := PodOutcome{Started: res.started, Done: res.outcome == outcomeSucceeded || res.outcome == outcomeIgnored}
	if res.outcome == outcomeFailed {
		outcome.Failed = res.text
	}
	if res.outcome == outcomeIgnored {
		outcome.Ignored = res.text
	}
	return outcome
}
