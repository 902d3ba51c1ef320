// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/exec"
)

// outcome is how a command ended in one pod.
type outcome int

const (
	// outcomeSucceeded: exit code 0.
	outcomeSucceeded outcome = iota
	// outcomeUnfinished: it wants to be called again.
	outcomeUnfinished
	// outcomePodGone: it failed in a pod that is not there any more.
	outcomePodGone
	// outcomeUnreachable: it was not started.
	outcomeUnreachable
	// outcomeFailed: it ended badly, or nobody knows.
	outcomeFailed
)

// podResult is what became of one pod.
type podResult struct {
	target
	outcome outcome
	// started means that the command may have run.
	started bool
	// connectionLost means that the connection ended before the command did.
	connectionLost bool
	// text says what went wrong, without the pod's name.
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
	log := logr.FromContextOrDiscard(ctx).WithValues("pod", namespacedName(t.pod), "container", t.container)
	out := newCommandOutput(log, r.Redactor)
	log.Info("Running the command")
	res.err = r.CommandRunner.Exec(ctx, t.pod.Namespace, t.pod.Name, t.container, slices.Clone(r.Command),
		bytes.NewReader(input), out.stdout, out.stderr)
	out.close()
	r.setOutcome(res, out)
	if res.err != nil {
		// The details are for the log: they hold addresses, and differ from time to time.
		log.Info("The command failed", "error", r.Redactor.String(res.err.Error()))
	}
	return res
}

// setOutcome says what the end of a command means.
func (r *invocation) setOutcome(res *podResult, out *commandOutput) {
	res.started = true
	var exit exec.ExitError
	var notStarted *NotStartedError
	switch {
	case res.err == nil:
		r.readAnswer(res, out)
	case errors.As(res.err, &exit):
		res.outcome, res.text = outcomeFailed, fmt.Sprintf("exit code %d", exit.ExitStatus())
		if said := r.redactToLine(lastLogLine(out)); said != "" {
			res.text += ": " + said
		}
	case isNotExecutable(res.err.Error()):
		res.started = false
		res.outcome, res.text = outcomeFailed, fmt.Sprintf("%s cannot be started in container %s: is it there, and executable?", r.Command[0], res.container)
	case errors.As(res.err, &notStarted) || isStartRefused(res.err.Error()):
		res.started = false
		res.text = notStartedReason(res.err, res.container)
	default:
		res.connectionLost = true
		res.outcome, res.text = outcomeFailed, "the connection was lost while the command ran, nobody knows whether it ended"
	}
}

// readAnswer reads what a command that ended well answered.
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
		res.outcome, res.text = outcomeFailed, "it ended without an answer, nobody knows whether the command ended: let it print one in its last line"
	case answer != nil:
		answer.message = r.redactToLine(answer.message)
		res.answer = answer
		if answer.retryAfter > 0 {
			res.outcome = outcomeUnfinished
		}
	}
}

// lastLogLine returns what a command that failed said about it.
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

// isNotExecutable reports whether a container runtime says that there is no such program. The
// kubelet hands on the text of the runtime (runc's, here), and nothing else.
func isNotExecutable(text string) bool {
	return strings.Contains(text, "executable file not found") ||
		strings.Contains(text, "exec failed") &&
			(strings.Contains(text, "no such file or directory") || strings.Contains(text, "permission denied"))
}

// isStartRefused reports whether an error that came over an open connection says that the
// command was not started: the API server opens the client's connection before
// it asks the node. The texts are those of the API server, the kubelet, containerd, CRI-O
// and runc.
func isStartRefused(text string) bool {
	return slices.ContainsFunc([]string{
		"container not found", "unable to upgrade connection", "error dialing backend", "error sending request", "pod does not exist",
		"is not created or running", "CONTAINER_EXITED", "failed to start exec", "failed to create exec",
		"OCI runtime exec failed", "unable to start container process", "No such container",
	}, func(part string) bool { return strings.Contains(text, part) })
}

// isNodeUnreachable reports whether the API server says that it does not reach a kubelet. It
// says it in the words of a client, which may be ours, too, as long as there is no connection
// to the API server itself.
func isNodeUnreachable(err error) bool {
	return strings.Contains(err.Error(), "error dialing backend") ||
		strings.Contains(err.Error(), "error sending request") && !errors.As(err, new(*NotStartedError))
}

// notStartedReason says why a command was not started, in words that stay the same.
func notStartedReason(err error, container string) string {
	text := err.Error()
	switch {
	case apierrors.IsForbidden(err) || strings.Contains(text, "is forbidden"):
		return "the operator may not run commands in it: grant get and create of pods/exec"
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept the operator's credentials"
	case apierrors.IsNotFound(err) || strings.Contains(text, "pod does not exist"):
		return "it is not there any more"
	case strings.Contains(text, "container not found"), strings.Contains(text, "is not created or running"),
		strings.Contains(text, "CONTAINER_EXITED"), strings.Contains(text, "No such container"):
		return fmt.Sprintf("its container %s does not run", container)
	case isNodeUnreachable(err):
		return "the API server cannot reach the node that it runs on"
	}
	return "the command could not be started; the log says why"
}
