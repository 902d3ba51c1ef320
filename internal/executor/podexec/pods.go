// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotationContainer is the annotation that kubectl uses, too.
const annotationContainer = "kubectl.kubernetes.io/default-container"

// target is one pod to run the command in.
type target struct {
	pod *corev1.Pod
	// container is the name of the container; containerID is the ID of its current instance.
	container, containerID string
	// containerMissing is set if the pod has no such container. notRunningReason is why the
	// container does not run; the command cannot be started then.
	containerMissing bool
	notRunningReason string
	// command is the pod's own command; nil if all pods have the same.
	command *PodCommand
}

// toReference returns the form in which commands and messages name the target.
func (t target) toReference() podReference {
	return podReference{Namespace: t.pod.Namespace, Name: t.pod.Name, Container: t.container}
}

// newTarget inspects a candidate pod.
func newTarget(pod *corev1.Pod, container string) target {
	t := target{pod: pod, container: containerNameFor(pod, container)}
	t.containerMissing = !hasContainer(pod, t.container)
	t.containerID, t.notRunningReason = runningContainerID(pod, t.container)
	return t
}

// skipReason returns why a pod is not a candidate; "" if it is one. A pod that is not Ready is a
// candidate: a frozen database fails its readiness probe, and must be thawed.
func skipReason(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "being deleted"
	case pod.Status.Phase != corev1.PodRunning:
		return cmp.Or(string(pod.Status.Phase), string(corev1.PodPending))
	}
	return ""
}

// isTerminatingOrTerminal reports whether a pod has stopped running, or soon will.
func isTerminatingOrTerminal(pod *corev1.Pod) bool {
	return pod == nil || pod.DeletionTimestamp != nil ||
		pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func isPodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// isReplacement reports whether a pod replaces a deleted one.
func isReplacement(pod, gone *corev1.Pod) bool {
	if pod.Namespace != gone.Namespace || pod.UID == gone.UID {
		return false
	}
	owner, former := metav1.GetControllerOfNoCopy(pod), metav1.GetControllerOfNoCopy(gone)
	if owner != nil && former != nil {
		return owner.UID == former.UID
	}
	return pod.Name == gone.Name
}

// containerNameFor returns the name of the container to run in. The pod's owner sets the
// annotation; as in kubectl, a name that does not exist is ignored.
func containerNameFor(pod *corev1.Pod, configured string) string {
	if configured != "" {
		return configured
	}
	if name := pod.Annotations[annotationContainer]; name != "" && hasContainer(pod, name) {
		return name
	}
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	return pod.Spec.Containers[0].Name
}

// hasContainer reports whether a pod has a container or sidecar of this name.
func hasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }) ||
		slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
}

// runningContainerID returns the ID of the running container of this name, or why it does not run.
func runningContainerID(pod *corev1.Pod, name string) (id, down string) {
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if status.Name != name {
			continue
		}
		switch {
		case status.State.Running != nil:
			return status.ContainerID, ""
		case status.State.Waiting != nil:
			return "", cmp.Or(status.State.Waiting.Reason, "Waiting")
		case status.State.Terminated != nil:
			return "", cmp.Or(status.State.Terminated.Reason, "Terminated")
		}
	}
	return "", "not started yet"
}

// comparePodsByName defines the order in which the command is run in pods.
func comparePodsByName(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// compareReadyFirst defines the order in which pods are tried if one is enough.
func compareReadyFirst(a, b target) int {
	if ready := isPodReady(a.pod); ready != isPodReady(b.pod) {
		if ready {
			return -1
		}
		return 1
	}
	return comparePodsByName(a.pod, b.pod)
}
