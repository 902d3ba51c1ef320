// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// recordPendingPods adds a result for every pod in which the command still has to run and that does
// not run yet: a pod that replaces a deleted one and, for an action that undoes another, every pod
// that will run.
func (r *invocation) recordPendingPods(pods []*corev1.Pod) {
	r.markAwaitingSuccessors(pods)
	for _, pod := range pods {
		if r.resultForPod(pod.UID) != nil {
			continue
		}
		switch {
		case r.isUndoing(pod) && r.isExpectedToRun(pod):
			r.recordUnreachable(pod, "it does not run: "+skipReason(pod))
		case r.Target == Each && !isTerminatingOrTerminal(pod) && r.isSuccessor(pod):
			r.recordUnreachable(pod, "it replaces a deleted pod and does not run yet")
		}
	}
}

func (r *invocation) recordUnreachable(pod *corev1.Pod, text string) {
	r.results = append(r.results, &podResult{target: r.newTarget(pod), outcome: outcomeUnreachable, answer: &answer{}, text: text})
}

// isExpectedToRun reports whether the effect to undo may exist in a pod that does not run, once it
// runs, or in its replacement. It cannot exist in a pod that has been pending since before the
// Backup or Restore began.
func (r *invocation) isExpectedToRun(pod *corev1.Pod) bool {
	switch {
	case pod.DeletionTimestamp != nil:
		return metav1.GetControllerOfNoCopy(pod) != nil
	case pod.Status.Phase == corev1.PodUnknown:
		return true
	}
	return !isTerminatingOrTerminal(pod) && pod.Status.Phase != corev1.PodRunning && !pod.CreationTimestamp.Time.Before(parentCreationTime(r.call))
}

// parentCreationTime is when the Backup or Restore of a call was created, in whole seconds like the
// creation times of pods.
func parentCreationTime(call executor.Call) time.Time {
	var subject struct {
		Metadata struct {
			CreationTimestamp metav1.Time `json:"creationTimestamp"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(call.Subject, &subject); err != nil {
		return time.Time{}
	}
	return subject.Metadata.CreationTimestamp.Time
}

// markAwaitingSuccessors marks deleted pods with something to undo as unreachable while their
// controllers have not created the replacements.
func (r *invocation) markAwaitingSuccessors(pods []*corev1.Pod) {
	for _, former := range r.results {
		if former.outcome != outcomePodGone || !r.isUndoing(former.pod) || metav1.GetControllerOfNoCopy(former.pod) == nil {
			continue
		}
		if !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return r.isNewPod(pod) && isReplacement(pod, former.pod) }) {
			former.outcome = outcomeUnreachable
			former.text = "is gone and has no replacement yet; " + former.text
		}
	}
}

// isNewPod reports whether a pod is not in the first list.
func (r *invocation) isNewPod(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(r.initialPods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
}

// isSuccessor reports whether a pod replaces a deleted one.
func (r *invocation) isSuccessor(pod *corev1.Pod) bool {
	return r.isNewPod(pod) && slices.ContainsFunc(r.results, func(former *podResult) bool {
		return former.outcome == outcomePodGone && isReplacement(pod, former.pod)
	})
}
