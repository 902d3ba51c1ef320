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

// await adds a result for every pod in which the command is still to be run and that does
// not run yet: one that takes the place of another that is gone, and for an action that
// undoes something all that will run.
func (r *run) await(pods []*corev1.Pod) {
	if r.OnMissing == Undo {
		r.awaitSuccessors(pods)
	}
	for _, pod := range pods {
		if r.treated(pod.UID) != nil {
			continue
		}
		switch {
		case r.OnMissing == Undo && r.isComing(pod):
			r.unreached(pod, "it does not run: "+leftOut(pod))
		case r.Target == Each && !isGone(pod) && r.succeeds(pod):
			r.unreached(pod, "it replaces a pod that is gone and does not run yet")
		}
	}
}

func (r *run) unreached(pod *corev1.Pod, text string) {
	r.results = append(r.results, &result{target: newTarget(pod, r.Container), outcome: unreachable, answer: &answer{}, text: text})
}

// isComing reports whether what was done may be found in a pod that does not run, once it
// does, or in the one that takes its place. It was not done in a pod that has waited since
// before the Backup or Restore began.
func (r *run) isComing(pod *corev1.Pod) bool {
	switch {
	case pod.DeletionTimestamp != nil:
		return metav1.GetControllerOfNoCopy(pod) != nil
	case pod.Status.Phase == corev1.PodUnknown:
		return true
	}
	return !isGone(pod) && pod.Status.Phase != corev1.PodRunning && !pod.CreationTimestamp.Time.Before(began(r.call))
}

// began is when the Backup or Restore of a call was created, in whole seconds like the times
// of pods.
func began(call executor.Call) time.Time {
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

// awaitSuccessors has those that are gone count as not reached as long as nothing has taken
// their place that a controller will make.
func (r *run) awaitSuccessors(pods []*corev1.Pod) {
	for _, former := range r.results {
		if former.outcome != gone || metav1.GetControllerOfNoCopy(former.pod) == nil {
			continue
		}
		if !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return r.isNew(pod) && replaces(pod, former.pod) }) {
			former.outcome = unreachable
			former.text = "is gone, and nothing has taken its place yet; " + former.text
		}
	}
}

// isNew reports whether a pod was not there at first.
func (r *run) isNew(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(r.first, func(p *corev1.Pod) bool { return p.UID == pod.UID })
}

// succeeds reports whether a pod takes the place of one that is gone.
func (r *run) succeeds(pod *corev1.Pod) bool {
	return r.isNew(pod) && slices.ContainsFunc(r.results, func(former *result) bool {
		return former.outcome == gone && replaces(pod, former.pod)
	})
}
