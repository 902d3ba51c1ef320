// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotationContainer is where kubectl looks, too.
const annotationContainer = "kubectl.kubernetes.io/default-container"

// target is one pod to run the command in.
type target struct {
	pod *corev1.Pod
	// container is the name of the container, id the one that runs under it now.
	container, id string
	// absent means that the pod has no such container, down why the container does not
	// run; the command cannot be started then.
	absent bool
	down   string
}

// reference is how commands and people are told of it.
func (t target) reference() podReference {
	return podReference{Namespace: t.pod.Namespace, Name: t.pod.Name, Container: t.container}
}

// newTarget looks at a pod that is a candidate.
func newTarget(pod *corev1.Pod, container string) target {
	t := target{pod: pod, container: containerOf(pod, container)}
	t.absent = !hasContainer(pod, t.container)
	t.id, t.down = state(pod, t.container)
	return t
}

// leftOut says why a pod is no candidate, "" if it is one. A pod that is not Ready is: a
// frozen database fails its readiness probe, and must be thawed.
func leftOut(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "being deleted"
	case pod.Status.Phase != corev1.PodRunning:
		return cmp.Or(string(pod.Status.Phase), string(corev1.PodPending))
	}
	return ""
}

// isGone reports whether nothing runs in a pod any more, or soon will not.
func isGone(pod *corev1.Pod) bool {
	return pod == nil || pod.DeletionTimestamp != nil ||
		pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// replaces reports whether a pod takes the place of another one that is gone.
func replaces(pod, gone *corev1.Pod) bool {
	if pod.Namespace != gone.Namespace || pod.UID == gone.UID {
		return false
	}
	owner, former := metav1.GetControllerOfNoCopy(pod), metav1.GetControllerOfNoCopy(gone)
	if owner != nil && former != nil {
		return owner.UID == former.UID
	}
	return pod.Name == gone.Name
}

// containerOf returns the name of the container to run in. The annotation is the pod
// owner's; one that names nothing is not taken, as kubectl does.
func containerOf(pod *corev1.Pod, configured string) string {
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

// hasContainer reports whether a pod has a container, or a sidecar, of a name.
func hasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }) ||
		slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
}

// state returns the id of the container that runs under a name, or why none does.
func state(pod *corev1.Pod, name string) (id, down string) {
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

// byName is the order in which pods are treated.
func byName(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// readyFirst is the order in which they are tried when one is enough.
func readyFirst(a, b target) int {
	if ready := isReady(a.pod); ready != isReady(b.pod) {
		if ready {
			return -1
		}
		return 1
	}
	return byName(a.pod, b.pod)
}
