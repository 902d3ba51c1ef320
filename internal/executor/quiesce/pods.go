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
)

// maxNamed is how many pods or workloads a message names.
const maxNamed = 5

// describeRunningPods returns a sorted description of each pod of these workloads that still runs.
// A list that fails is recorded as a failure.
func (p *pass) describeRunningPods(ctx context.Context, held []Workload) []string {
	var left, namespaces []string
	for _, w := range held {
		namespaces = append(namespaces, w.Namespace)
	}
	now := p.options.Now()
	for _, where := range scopesForNamespaces(withoutDuplicates(namespaces)) {
		belongs, err := p.newPodMatcher(ctx, where, held)
		if err == nil {
			err = p.forEachPod(ctx, where, func(pod *corev1.Pod) {
				if isNonTerminalPod(pod) && belongs(pod) {
					left = append(left, describePod(pod, now))
				}
			})
		}
		if err != nil {
			p.recordFailure(Ref{Namespace: where.namespace}, fmt.Errorf("listing pods: %w", err))
		}
	}
	slices.Sort(left)
	return left
}

// newPodMatcher returns a function that reports whether a pod belongs to one of these workloads,
// through its controller or the controller of that one. A pod whose ReplicaSet or Job was deleted
// matches, too: its workload is unknown, and the pod is about to terminate.
func (q *Quiescer) newPodMatcher(ctx context.Context, where scope, workloads []Workload) (func(*corev1.Pod) bool, error) {
	held, kinds, namespaces := map[types.UID]bool{}, map[WorkloadKind]bool{}, map[string]bool{}
	for _, w := range workloads {
		held[types.UID(w.UID)], kinds[w.Kind], namespaces[w.Namespace] = true, true, true
	}
	between, listed := map[types.UID]types.UID{}, map[WorkloadKind]bool{}
	if kinds[Deployment] {
		if err := q.listControllerUIDs(ctx, where, "apps/v1", "ReplicaSet", between); err != nil {
			return nil, err
		}
		listed[ReplicaSet] = true
	}
	if kinds[CronJob] {
		if err := q.listControllerUIDs(ctx, where, "batch/v1", "Job", between); err != nil {
			return nil, err
		}
		listed[Job] = true
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

// describePod names a pod and what it waits for. The text stays the same until that changes.
// Kubernetes sets deletionTimestamp to the time at which the grace period ends.
func describePod(pod *corev1.Pod, now time.Time) string {
	name := pod.Namespace + "/" + pod.Name
	switch {
	case pod.DeletionTimestamp == nil:
		return name + " (not terminating yet)"
	case now.Before(pod.DeletionTimestamp.Time):
		grace := int64(0)
		if pod.DeletionGracePeriodSeconds != nil {
			grace = *pod.DeletionGracePeriodSeconds
		}
		return fmt.Sprintf("%s (terminating, grace period %d s)", name, grace)
	case len(pod.Finalizers) > 0:
		return fmt.Sprintf("%s (stuck: its grace period is over, finalizers %s)", name, strings.Join(pod.Finalizers, ", "))
	}
	return fmt.Sprintf("%s (stuck: its grace period is over; check node %s)", name, pod.Spec.NodeName)
}

// summarizePods counts pods and names some of them, stuck ones first.
func summarizePods(left []string) string {
	slices.SortStableFunc(left, func(a, b string) int {
		return podSortRank(a) - podSortRank(b)
	})
	count := fmt.Sprintf("%d pods: ", len(left))
	if len(left) == 1 {
		count = "1 pod: "
	}
	return count + joinAbbreviated(left)
}

func podSortRank(pod string) int {
	if strings.Contains(pod, "(stuck") {
		return 0
	}
	return 1
}

// joinAbbreviated joins the first maxNamed texts and counts the others.
func joinAbbreviated(texts []string) string {
	if more := len(texts) - maxNamed; more > 0 {
		return strings.Join(texts[:maxNamed], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(texts, "; ")
}
