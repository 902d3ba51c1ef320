// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxNamed is how many pods or workloads a message names.
const maxNamed = 5

// describeRunningPods describes the pods of these workloads that still run, stuck ones first. A list
// that fails is recorded as a failure.
func (p *pass) describeRunningPods(ctx context.Context, held []Workload) []string {
	var stuck, others, namespaces []string
	for _, w := range held {
		namespaces = append(namespaces, w.Namespace)
	}
	now := p.options.Now()
	for _, where := range scopesForNamespaces(withoutDuplicates(namespaces)) {
		belongs, err := p.newPodMatcher(ctx, where, held)
		if err == nil {
			empty := func() client.ObjectList { return &corev1.PodList{} }
			err = forEachObject(ctx, p.Quiescer, empty, where, func(pod *corev1.Pod) {
				if !isNonTerminalPod(pod) || !belongs(pod) {
					return
				}
				if text, isStuck := describePod(pod, now); isStuck {
					stuck = append(stuck, text)
				} else {
					others = append(others, text)
				}
			})
		}
		if err != nil {
			p.recordFailure(Ref{Namespace: where.Namespace}, fmt.Errorf("listing pods: %w", err))
		}
	}
	slices.Sort(stuck)
	slices.Sort(others)
	return append(stuck, others...)
}

// newPodMatcher returns a function that reports whether a pod belongs to one of these workloads,
// through its controller or the controller of that one. A pod whose ReplicaSet or Job was deleted
// matches, too: its workload is unknown, and the pod is about to terminate.
func (q *Quiescer) newPodMatcher(ctx context.Context, where client.ListOptions, workloads []Workload) (func(*corev1.Pod) bool, error) {
	held, kinds, namespaces := map[types.UID]bool{}, map[WorkloadKind]bool{}, map[string]bool{}
	for _, w := range workloads {
		held[types.UID(w.UID)], kinds[w.Kind], namespaces[w.Namespace] = true, true, true
	}
	between, listed := map[types.UID]types.UID{}, map[WorkloadKind]bool{}
	for kind, child := range map[WorkloadKind]WorkloadKind{Deployment: ReplicaSet, CronJob: Job} {
		if listed[child] = kinds[kind]; !listed[child] {
			continue
		}
		if err := q.listControllerUIDs(ctx, where, child, between); err != nil {
			return nil, err
		}
	}
	return func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil {
			return false
		}
		above, there := between[owner.UID]
		orphan := !there && listed[WorkloadKind(owner.Kind)] && namespaces[pod.Namespace]
		return held[owner.UID] || held[above] || orphan
	}, nil
}

// isNonTerminalPod reports whether containers of a pod may still run. That includes a pod that is
// terminating.
func isNonTerminalPod(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// describePod names a pod and what it waits for. The text stays the same until that changes. The pod
// is stuck if its grace period is over, to the end of which Kubernetes sets deletionTimestamp.
func describePod(pod *corev1.Pod, now time.Time) (text string, stuck bool) {
	name := pod.Namespace + "/" + pod.Name
	switch {
	case pod.DeletionTimestamp == nil:
		return name + " (not terminating yet)", false
	case now.Before(pod.DeletionTimestamp.Time):
		grace := int64(0)
		if pod.DeletionGracePeriodSeconds != nil {
			grace = *pod.DeletionGracePeriodSeconds
		}
		return fmt.Sprintf("%s (terminating, grace period %d s)", name, grace), false
	case len(pod.Finalizers) > 0:
		return fmt.Sprintf("%s (stuck: its grace period is over, finalizers %s)", name, strings.Join(pod.Finalizers, ", ")), true
	}
	return fmt.Sprintf("%s (stuck: its grace period is over; check node %s)", name, pod.Spec.NodeName), true
}

// summarizePods counts pods and names some of them.
func summarizePods(left []string) string {
	count := fmt.Sprintf("%d pods: ", len(left))
	if len(left) == 1 {
		count = "1 pod: "
	}
	return count + joinAbbreviated(left)
}

// joinAbbreviated joins the first maxNamed texts and counts the others.
func joinAbbreviated(texts []string) string {
	if more := len(texts) - maxNamed; more > 0 {
		return strings.Join(texts[:maxNamed], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(texts, "; ")
}
