// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/exec"
)

// outcome is the result of a command in one pod.
type outcome int

const (
	// outcomeSucceeded: exit code 0.
	outcomeSucceeded outcome = iota
	// outcomeUnfinished: the command has to be called again.
	outcomeUnfinished
	// outcomeIgnored: the command failed, which the pod says to ignore.
	outcomeIgnored
	// outcomePodGone: the command failed in a pod that no longer exists.
	outcomePodGone
	// outcomeUnreachable: the command was not started.
	outcomeUnreachable
	// outcomeFailed: the command failed, or its result is unknown.
	outcomeFailed
)

// podResult is the result for one pod.
type podResult struct {
	target
	outcome outcome
	// started means that the command may have run.
	started bool
	// connectionLost means that the connection ended before the command did.
	connectionLost bool
	// text describes the failure, without the pod's name.
	text string
	// answer is never nil.
	answer *answer
	err    error
}

// runInPod runs the command in one pod. It returns nil if ctx ended before that.
func (r *invocation) runInPod(ctx context.Context, t target) *podResult {
	res := &podResult{target: t, outcome: outcomeUnreachable, answer: &answer{}}
	switch {
	case ctx.Err() != nil:
		return nil
	case t.command != nil:
		r.runOwnCommand(ctx, res)
		return res
	case t.containerMissing:
		res.outcome, res.text = outcomeFailed, fmt.Sprintf("has no container %q", t.container)
		return res
	case t.notRunningReason != "":
		res.text = fmt.Sprintf("its container %s does not run: %s", t.container, t.notRunningReason)
		return res
	}
	input, err := encodeRequest(r.call, t.toReference())
	if err != nil {
		res.text, res.err = "the call cannot be encoded", err
		return res
	}
	r.execute(ctx, res, r.Command, input)
	return res
}

// execute runs a command in the container of a result, and sets the result.
func (r *invocation) execute(ctx context.Context, res *podResult, command []string, input []byte) {
	log := logr.FromContextOrDiscard(ctx).WithValues("pod", namespacedName(res.pod), "container", res.container)
	out := newCommandOutput(log, r.Redactor)
	log.Info("Running the command")
	res.err = r.CommandRunner.Exec(ctx, res.pod.Namespace, res.pod.Name, res.container, slices.Clone(command),
		bytes.NewReader(input), out.stdout, out.stderr)
	out.close()
	program := command[0]
	if res.command != nil {
		program = "the command of its annotation " + res.command.Annotation
	}
	r.setOutcome(res, out, program)
	switch {
	case res.err == nil:
	case res.command != nil:
		// The details may contain the command, and that a password.
		log.Info("The command failed", "error", res.text)
	default:
		// The details are only logged: they contain addresses and differ from time to time.
		log.Info("The command failed", "error", r.Redactor.String(res.err.Error()))
	}
}

// setOutcome derives the outcome from the end of a command.
func (r *invocation) setOutcome(res *podResult, out *commandOutput, program string) {
	res.started = true
	var exit exec.ExitError
	var notStarted *NotStartedError
	switch {
	case res.err == nil && res.command != nil:
		res.outcome = outcomeSucceeded
	case res.err == nil:
		r.readAnswer(res, out)
	case errors.As(res.err, &exit):
		res.outcome, res.text = outcomeFailed, fmt.Sprintf("exit code %d", exit.ExitStatus())
		if said := r.redactToLine(lastLogLine(out)); said != "" {
			res.text += ": " + said
		}
	case isNotExecutable(res.err.Error()):
		res.started = false
		res.outcome, res.text = outcomeFailed, fmt.Sprintf("%s cannot be started in container %s: is it there, and executable?", program, res.container)
	case errors.As(res.err, &notStarted) || isStartRefused(res.err.Error()):
		res.started = false
		res.text = notStartedReason(res.err, res.container)
		if res.text == "" && res.command != nil {
			res.text = program + " could not be started"
		}
		res.text = cmp.Or(res.text, "the command could not be started; see the log")
	default:
		res.connectionLost = true
		res.outcome, res.text = outcomeFailed, "the connection was lost while the command ran; whether it ended is unknown"
	}
}

// readAnswer reads the answer of a command that succeeded.
func (r *invocation) readAnswer(res *podResult, out *commandOutput) {
	res.outcome = outcomeSucceeded
	line, whole := out.stdout.lastLine()
	if !whole {
		line = ""
	}
	answer, err := parseAnswer(line)
	switch {
	case err != nil:
		res.outcome, res.text, res.err = outcomeFailed, err.Error(), err
	case answer == nil && r.RequireAnswer:
		res.outcome, res.text = outcomeFailed, "it ended without an answer; whether the command ended is unknown: let it print an answer as its last line"
	case answer != nil:
		answer.message = r.redactToLine(answer.message)
		res.answer = answer
		if answer.retryAfter > 0 {
			res.outcome = outcomeUnfinished
		}
	}
}

// lastLogLine returns what a failed command printed about the failure.
func lastLogLine(out *commandOutput) string {
	if said, _ := out.stderr.lastLine(); said != "" {
		return said
	}
	said, whole := out.stdout.lastLine()
	if answer, err := parseAnswer(said); whole && err == nil && answer != nil {
		return answer.message
	}
	return said
}

// isNotExecutable reports whether the container runtime found no such program. The kubelet passes
// on the text of the runtime (runc's, here), and nothing else.
func isNotExecutable(text string) bool {
	return strings.Contains(text, "executable file not found") ||
		strings.Contains(text, "exec failed") &&
			(strings.Contains(text, "no such file or directory") || strings.Contains(text, "permission denied"))
}

// isStartRefused reports whether an error from an open connection says that the command was not
// started: the API server opens the client's connection before it contacts the node. The texts are
// those of the API server, the kubelet, containerd, CRI-O and runc.
func isStartRefused(text string) bool {
	return slices.ContainsFunc([]string{
		"container not found", "unable to upgrade connection", "error dialing backend", "error sending request", "pod does not exist",
		"is not created or running", "CONTAINER_EXITED", "failed to start exec", "failed to create exec",
		"OCI runtime exec failed", "unable to start container process", "No such container",
	}, func(part string) bool { return strings.Contains(text, part) })
}

// isNodeUnreachable reports whether the API server cannot reach a kubelet. Its text is that of a
// client, which may also be our own if there is no connection to the API server itself.
func isNodeUnreachable(err error) bool {
	return strings.Contains(err.Error(), "error dialing backend") ||
		strings.Contains(err.Error(), "error sending request") && !errors.As(err, new(*NotStartedError))
}

// notStartedReason returns why a command was not started, in a stable wording; "" if that is unknown.
func notStartedReason(err error, container string) string {
	text := err.Error()
	switch {
	case apierrors.IsForbidden(err) || strings.Contains(text, "is forbidden"):
		return "the operator may not run commands in it: grant get and create of pods/exec"
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept the operator's credentials"
	case apierrors.IsNotFound(err) || strings.Contains(text, "pod does not exist"):
		return "it no longer exists"
	case strings.Contains(text, "container not found"), strings.Contains(text, "is not created or running"),
		strings.Contains(text, "CONTAINER_EXITED"), strings.Contains(text, "No such container"):
		return fmt.Sprintf("its container %s does not run", container)
	case isNodeUnreachable(err):
		return "the API server cannot reach the node that it runs on"
	}
	return ""
}
