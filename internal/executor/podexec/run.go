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

// maxPasses is how often pods are listed and treated in one call: the first time, and
// as long as new ones appeared meanwhile.
const maxPasses = 6

// run is one call.
type run struct {
	Options
	call       executor.Call
	namespaces []string
	// first are the pods of the first list.
	first []*corev1.Pod
	// left says why a pod that was found is not treated.
	left map[types.UID]string
	// results are those of the pods that were treated, in the order of their treatment.
	results []*result
}

// all treats the pods.
func (r *run) all(ctx context.Context) error {
	if err := r.included(ctx); err != nil {
		return err
	}
	if r.Target == Any {
		return r.any(ctx)
	}
	return r.each(ctx)
}

// included finds out which namespaces may be touched.
func (r *run) included(ctx context.Context) error {
	names, err := r.Namespaces(ctx, r.call)
	var known *executor.Error
	switch {
	case errors.As(err, &known):
		return known
	case err != nil:
		return r.unread(ctx, "the namespaces that it includes could not be found out", err)
	case slices.Contains(names, ""):
		// To a list, it means all of them.
		return executor.NewError(executor.Invalid, r.call, "a namespace without a name is included: name the namespaces", nil)
	}
	names = slices.Clone(names)
	slices.Sort(names)
	r.namespaces = slices.Compact(names)
	return nil
}

// list returns the pods that the selector finds, by namespace and name.
func (r *run) list(ctx context.Context) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, namespace := range r.namespaces {
		found, err := r.read(ctx, namespace)
		if err != nil {
			return nil, r.unread(ctx, fmt.Sprintf("the pods of namespace %s could not be listed", namespace), err)
		}
		for i := range found {
			if found[i].Namespace == namespace {
				pods = append(pods, &found[i])
			}
		}
	}
	slices.SortStableFunc(pods, byName)
	return pods, nil
}

// read lists the pods of one namespace. An API server that is away for a moment must
// not make a command that is done count as failed.
func (r *run) read(ctx context.Context, namespace string) (found []corev1.Pod, err error) {
	pauses := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Steps: 4}
	waited := wait.ExponentialBackoffWithContext(ctx, pauses, func(ctx context.Context) (bool, error) {
		found, err = r.Reader.Pods(ctx, namespace, r.Selector)
		return err == nil || apierrors.IsForbidden(err), nil
	})
	if err == nil && ctx.Err() != nil {
		err = waited
	}
	return found, err
}

// unread is the error of a call for which something could not be read.
func (r *run) unread(ctx context.Context, text string, err error) error {
	if ctx.Err() != nil {
		return r.interrupted(ctx)
	}
	logr.FromContextOrDiscard(ctx).Info("Reading failed", "what", text, "error", r.Redactor.String(err.Error()))
	if apierrors.IsForbidden(err) {
		text += ": the operator may not do it"
	}
	return executor.NewError(executor.Unreachable, r.call, r.Redactor.String(text), err)
}

// interrupted is the error of a call whose ctx ended.
func (r *run) interrupted(ctx context.Context) error {
	where := ""
	for _, res := range r.results {
		if res.lost {
			where = "; the command may go on in pod " + nameOf(res.pod)
			break
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return executor.NewError(executor.Timeout, r.call, r.Redactor.String(
			"did not end before its deadline: raise its timeout or check what it waits for"+where), ctx.Err())
	}
	return executor.NewError(executor.Interrupted, r.call, r.Redactor.String("was interrupted before it ended"+where), ctx.Err())
}

// fresh returns the candidates that were not treated yet, in order.
func (r *run) fresh(ctx context.Context, pods []*corev1.Pod) []target {
	var targets []target
	for _, pod := range pods {
		if r.treated(pod.UID) != nil {
			continue
		}
		why := leftOut(pod)
		if why == "" {
			delete(r.left, pod.UID)
			targets = append(targets, newTarget(pod, r.Container))
		} else if why != r.left[pod.UID] {
			logr.FromContextOrDiscard(ctx).Info("The pod is left out", "pod", nameOf(pod), "why", why)
			r.left[pod.UID] = why
		}
	}
	return targets
}

// treated returns the result of a pod, nil if it was not treated.
func (r *run) treated(uid types.UID) *result {
	for _, res := range r.results {
		if res.pod.UID == uid {
			return res
		}
	}
	return nil
}

// settle looks at what became of the pods in which the command failed.
func (r *run) settle(pods []*corev1.Pod) {
	for _, res := range r.results {
		if res.outcome != failed && res.outcome != unreachable {
			continue
		}
		at := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == res.pod.UID })
		switch {
		case at < 0 || isGone(pods[at]):
			res.outcome = gone
		case res.lost && restarted(res.target, pods[at]):
			res.text = fmt.Sprintf("its container %s restarted while the command ran, which ended it", res.container)
		}
	}
}

// restarted reports whether another container runs, or none, where the command ran.
func restarted(t target, now *corev1.Pod) bool {
	id, _ := state(now, t.container)
	return id != t.id
}

func nameOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
