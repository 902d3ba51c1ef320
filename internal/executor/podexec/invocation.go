// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// maxListPasses is how often one call lists pods: once, and again as long as new ones have
// appeared.
const maxListPasses = 6

// invocation is one call.
type invocation struct {
	Options
	call       executor.Call
	namespaces []string
	// initialPods are the pods of the first list.
	initialPods []*corev1.Pod
	// skipReasons are why matching pods are skipped.
	skipReasons map[types.UID]string
	// results are the results of the pods in which the command was run, in that order.
	results []*podResult
}

// runInPods runs the command in the pods.
func (r *invocation) runInPods(ctx context.Context) error {
	if err := r.resolveNamespaces(ctx); err != nil {
		return err
	}
	if r.Target == Any {
		return r.runInAnyPod(ctx)
	}
	return r.runInEachPod(ctx)
}

// resolveNamespaces determines the namespaces in which commands may run.
func (r *invocation) resolveNamespaces(ctx context.Context) error {
	names, err := r.Namespaces(ctx, r.call)
	var known *executor.Error
	switch {
	case errors.As(err, &known):
		return known
	case err != nil:
		return r.newReadError(ctx, "the included namespaces could not be determined", err)
	case slices.Contains(names, ""):
		// In a list request, the empty name means all namespaces.
		return executor.NewError(executor.Invalid, r.call, "a namespace without a name is included: name the namespaces", nil)
	}
	names = slices.Clone(names)
	slices.Sort(names)
	r.namespaces = slices.Compact(names)
	return nil
}

// listPods returns the pods that match the selector and have a command, sorted by namespace and name.
func (r *invocation) listPods(ctx context.Context) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, namespace := range r.namespaces {
		found, err := r.listPodsWithRetry(ctx, namespace)
		if err != nil {
			return nil, r.newReadError(ctx, fmt.Sprintf("the pods of namespace %s could not be listed", namespace), err)
		}
		for i := range found {
			if pod := found[i]; pod.Namespace == namespace && (r.CommandFor == nil || r.CommandFor(&pod) != nil) {
				pods = append(pods, &pod) // and not a reference to all
			}
		}
	}
	slices.SortStableFunc(pods, comparePodsByName)
	return pods, nil
}

// listPodsWithRetry lists the pods of one namespace. A short outage of the API server must not turn
// a finished command into a failure.
func (r *invocation) listPodsWithRetry(ctx context.Context, namespace string) (found []corev1.Pod, err error) {
	pauses := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Steps: 4}
	waited := wait.ExponentialBackoffWithContext(ctx, pauses, func(ctx context.Context) (bool, error) {
		found, err = r.Reader.ListPods(ctx, namespace, r.Selector)
		return err == nil || apierrors.IsForbidden(err), nil
	})
	if err == nil && ctx.Err() != nil {
		err = waited
	}
	return found, err
}

// newReadError returns the error of a call for which something could not be read.
func (r *invocation) newReadError(ctx context.Context, text string, err error) error {
	if ctx.Err() != nil {
		return r.newContextError(ctx)
	}
	logr.FromContextOrDiscard(ctx).Info("Reading failed", "what", text, "error", r.Redactor.String(err.Error()))
	if apierrors.IsForbidden(err) {
		text += ": the operator is not allowed to"
	}
	return executor.NewError(executor.Unreachable, r.call, r.Redactor.String(text), err)
}

// newContextError returns the error of a call whose ctx ended.
func (r *invocation) newContextError(ctx context.Context) error {
	where := ""
	for _, res := range r.results {
		if res.connectionLost {
			where = "; the command may still run in pod " + namespacedName(res.pod)
			break
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return executor.NewError(executor.Timeout, r.call, r.Redactor.String(
			"did not end before its deadline: raise its timeout or check what it waits for"+where), ctx.Err())
	}
	return executor.NewError(executor.Interrupted, r.call, r.Redactor.String("was interrupted before it ended"+where), ctx.Err())
}

// selectNewTargets returns the candidates in which the command was not run yet, in order.
func (r *invocation) selectNewTargets(ctx context.Context, pods []*corev1.Pod) []target {
	var targets []target
	for _, pod := range pods {
		if r.resultForPod(pod.UID) != nil {
			continue
		}
		why := skipReason(pod)
		if why == "" || r.isWaiting(pod) {
			delete(r.skipReasons, pod.UID)
			targets = append(targets, r.newTarget(pod))
		} else if why != r.skipReasons[pod.UID] {
			logr.FromContextOrDiscard(ctx).Info("Skipping a pod", "pod", namespacedName(pod), "why", why)
			r.skipReasons[pod.UID] = why
		}
	}
	slices.SortStableFunc(targets, compareUntriedFirst)
	return targets
}

// resultForPod returns the result of a pod; nil if the command was not run there.
func (r *invocation) resultForPod(uid types.UID) *podResult {
	for _, res := range r.results {
		if res.pod.UID == uid {
			return res
		}
	}
	return nil
}

// updateFailedResults updates the results of pods in which the command failed, according to their
// current state.
func (r *invocation) updateFailedResults(pods []*corev1.Pod) {
	for _, res := range r.results {
		if res.outcome != outcomeFailed && res.outcome != outcomeUnreachable {
			continue
		}
		at := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == res.pod.UID })
		switch {
		case at < 0 || isTerminatingOrTerminal(pods[at]):
			res.outcome = outcomePodGone
		case res.connectionLost && hasContainerRestarted(res.target, pods[at]):
			res.text = fmt.Sprintf("its container %s restarted while the command ran, which ended it", res.container)
		}
	}
}

// hasContainerRestarted reports whether the container in which the command ran was replaced or
// stopped.
func hasContainerRestarted(t target, now *corev1.Pod) bool {
	id, _ := runningContainerID(now, t.container)
	return id != t.containerID
}

func namespacedName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
