// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// failure is an error before it becomes an executor.Error. Its text is not redacted yet.
type failure struct {
	kind executor.ErrorKind
	text string
	err  error
	// hasObjectName is set if the text contains the name of an object that a user has to inspect.
	hasObjectName bool
	// isCreation is set if an object could not be created: until it is, nothing runs.
	isCreation bool
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() error { return f.err }

// jobState is the state of a Job and its pod at one moment.
type jobState struct {
	// started is set if the container ran or runs.
	started bool
	// exit is how the container ended, if it ended by itself.
	exit *corev1.ContainerStateTerminated
	// failure is why there will be no exit.
	failure *failure
	// isFinal is set if the Job ended by itself: later reads show the same, and nothing is started
	// any more.
	isFinal bool
	// stuckReason is why the container cannot start, if that may pass.
	stuckReason string
	// waitingReason is what has to happen before the container starts.
	waitingReason string
}

func (v jobState) hasEnded() bool { return v.exit != nil || v.failure != nil }

// newJobState derives the state from a Job and its pod. Each is nil if it does not exist.
func newJobState(job *batchv1.Job, pod *corev1.Pod) jobState {
	status := actionContainerStatus(pod)
	exit := status.State.Terminated
	v := jobState{started: status.State.Running != nil || (exit != nil && !isContainerStartError(exit))}
	switch {
	case exit != nil && exit.ExitCode == 0:
		v.exit, v.isFinal = exit, true
	case job == nil || job.DeletionTimestamp != nil:
		v.failure = &failure{kind: executor.Unreachable, text: "its Job was deleted by another client before it finished"}
	case isDeadlineExceeded(job):
		v.failure = &failure{kind: executor.Timeout, text: "did not end before the deadline of its Job: " + timeoutReason(pod)}
	case exit != nil || (pod != nil && pod.Status.Phase == corev1.PodFailed):
		v.isFinal = true
		v.exit, v.failure = classifyPodFailure(pod, exit)
	case findTrueCondition(job, batchv1.JobComplete) != nil:
		v.isFinal = true
		v.failure = &failure{kind: executor.Unreachable, text: "succeeded, but its pod was deleted before its answer could be read"}
	case findTrueCondition(job, batchv1.JobFailed) != nil:
		v.isFinal = true
		v.failure = &failure{kind: executor.Unreachable, text: "its pod was lost before it answered: " + findTrueCondition(job, batchv1.JobFailed).Message}
	case !v.started:
		v.setPendingReason(job, pod, status)
	}
	return v
}

func actionContainerStatus(pod *corev1.Pod) corev1.ContainerStatus {
	if pod != nil {
		for _, status := range pod.Status.ContainerStatuses {
			if status.Name == containerName {
				return status
			}
		}
	}
	return corev1.ContainerStatus{}
}

// isContainerStartError reports whether the runtime could not start the command.
func isContainerStartError(exit *corev1.ContainerStateTerminated) bool {
	return exit.Reason == "StartError" || exit.Reason == "ContainerCannotRun"
}

func findTrueCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// isDeadlineExceeded reports whether Kubernetes ends or ended the Job because of its deadline.
func isDeadlineExceeded(job *batchv1.Job) bool {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		if c := findTrueCondition(job, kind); c != nil && c.Reason == batchv1.JobReasonDeadlineExceeded {
			return true
		}
	}
	return false
}

// classifyPodFailure returns how a pod failed whose container ended with exit, or never ran: either
// the exit of the container itself, or a failure with another cause.
func classifyPodFailure(pod *corev1.Pod, exit *corev1.ContainerStateTerminated) (*corev1.ContainerStateTerminated, *failure) {
	lost := &failure{kind: executor.Unreachable}
	disrupted := findPodCondition(pod, corev1.DisruptionTarget)
	switch {
	case exit != nil && isContainerStartError(exit):
		lost.text = "its container cannot be started: " + exit.Message
	case exit != nil && exit.Reason == "OOMKilled":
		return nil, &failure{
			kind: executor.Failed, text: "was killed because it used more memory than it may (OOMKilled): raise resources.limits.memory of the Plugin",
		}
	case pod.Status.Reason == "Evicted":
		lost.text = "its pod was evicted before it answered: " + pod.Status.Message
	case disrupted != nil && disrupted.Status == corev1.ConditionTrue:
		lost.text = "its pod was disrupted before it answered (" + disrupted.Reason + nodeSuffix(pod) + "): " + disrupted.Message
	case pod.DeletionTimestamp != nil:
		lost.text = "its pod was deleted before it answered"
	case exit != nil && exit.Reason == "ContainerStatusUnknown":
		lost.text = "its node does not know the state of its container: " + exit.Message
	case exit == nil || pod.Status.Reason != "":
		lost.text = "its pod failed before it answered: " + joinReason(pod.Status.Reason, pod.Status.Message)
	default:
		return exit, nil
	}
	return nil, lost
}

func findPodCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// nodeSuffix names the node of a pod; "" if it has none.
func nodeSuffix(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return ""
	}
	return " on node " + pod.Spec.NodeName
}

// timeoutReason returns the likely reason why a pod did not finish in time.
func timeoutReason(pod *corev1.Pod) string {
	return cmp.Or(lostNodeReason(pod), "raise its timeout or check what it waits for")
}

// lostNodeReason returns what is wrong with the node of a pod; "" if it seems healthy. The pod of a
// lost node may still run, and cannot be stopped.
func lostNodeReason(pod *corev1.Pod) string {
	if pod == nil || pod.Spec.NodeName == "" {
		return ""
	}
	lost := "node " + pod.Spec.NodeName + ", which runs its pod, does not respond"
	disrupted := findPodCondition(pod, corev1.DisruptionTarget)
	switch {
	case disrupted != nil && disrupted.Status == corev1.ConditionTrue:
		return "its pod is being removed from node " + pod.Spec.NodeName + " (" + joinReason(disrupted.Reason, disrupted.Message) + ")"
	case pod.Status.Reason == "NodeLost":
		return lost + " (" + joinReason(pod.Status.Reason, pod.Status.Message) + ")"
	case pod.Status.Phase == corev1.PodUnknown || isKubeletUnresponsive(pod):
		return lost
	}
	return ""
}

// isKubeletUnresponsive reports whether the node of a pod stopped reporting. The node controller
// then marks the pod as not ready, and keeps the last container statuses.
func isKubeletUnresponsive(pod *corev1.Pod) bool {
	ready, contained := findPodCondition(pod, corev1.PodReady), findPodCondition(pod, corev1.ContainersReady)
	return ready != nil && ready.Status == corev1.ConditionFalse && ready.Reason != "ReadinessGatesNotReady" &&
		contained != nil && contained.Status == corev1.ConditionTrue
}

// setPendingReason sets what a container that has not started waits for.
func (v *jobState) setPendingReason(job *batchv1.Job, pod *corev1.Pod, status corev1.ContainerStatus) {
	waiting := status.State.Waiting
	switch {
	case pod == nil && job.Spec.Suspend != nil && *job.Spec.Suspend:
		v.waitingReason = "its Job is suspended by something else in the cluster"
	case pod == nil:
		v.waitingReason = "its pod has not been created"
	case waiting != nil && waiting.Reason != "":
		v.setContainerWaitingReason(waiting)
	default:
		v.waitingReason = strings.TrimSuffix("its pod has not been started by its node "+pod.Spec.NodeName, " ")
		if c := findPodCondition(pod, corev1.PodScheduled); c == nil || c.Status != corev1.ConditionTrue {
			v.waitingReason = "its pod has not been scheduled"
			if c != nil && c.Message != "" {
				v.waitingReason = "its pod cannot be scheduled: " + c.Message
			}
		}
	}
}

// setContainerWaitingReason interprets the reason why the kubelet has not started the container.
func (v *jobState) setContainerWaitingReason(waiting *corev1.ContainerStateWaiting) {
	why := joinReason(waiting.Reason, waiting.Message)
	switch waiting.Reason {
	case "InvalidImageName":
		v.failure = &failure{kind: executor.Invalid, text: "the name of its image is not valid: " + why}
	case "ErrImageNeverPull":
		v.failure = &failure{kind: executor.Unreachable, text: "its image is not on the node, and its pull policy is Never: " + why}
	case "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		v.stuckReason = "its image cannot be pulled: " + why
	case "CreateContainerConfigError", "CreateContainerError", "PreCreateHookError", "PreStartHookError", "PostStartHookError",
		"RunContainerError", "CrashLoopBackOff":
		v.stuckReason = "its container cannot be started: " + why
	default:
		v.waitingReason = "its container has not been started: " + why
	}
}

// joinReason puts a reason in front of a message that does not contain it.
func joinReason(reason, message string) string {
	if reason == "" || strings.Contains(message, reason) {
		return cmp.Or(message, "for an unknown reason")
	}
	return strings.TrimSuffix(reason+": "+message, ": ")
}
