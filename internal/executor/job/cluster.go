// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/kube/request"
)

// Client makes requests to the API server. Its reads must not come from a cache: what
// was just written has to be seen.
type Client = client.WithWatch

// cluster makes the requests of an Executor, all in one namespace.
type cluster struct {
	client    client.WithWatch
	namespace string
}

func (c *cluster) name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

func (c *cluster) withKey(key string) []client.ListOption {
	return []client.ListOption{client.InNamespace(c.namespace), client.MatchingLabels{LabelManagedBy: ManagedBy, LabelKey: key}}
}

// create creates an object and fills in what the API server made of it.
func (c *cluster) create(ctx context.Context, object client.Object) error {
	if err := c.client.Create(ctx, object); err != nil {
		return fmt.Errorf("creating %s: %w", object.GetName(), err)
	}
	return nil
}

func (c *cluster) jobs(ctx context.Context, key string) ([]batchv1.Job, error) {
	var list batchv1.JobList
	if err := c.client.List(ctx, &list, c.withKey(key)...); err != nil {
		return nil, fmt.Errorf("listing Jobs: %w", err)
	}
	return list.Items, nil
}

// job returns a Job; nil if there is none of that name.
func (c *cluster) job(ctx context.Context, name string) (*batchv1.Job, error) {
	var job batchv1.Job
	if err := c.client.Get(ctx, c.name(name), &job); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the Job: %w", err)
	}
	return &job, nil
}

// secret returns a Secret; nil if there is none of that name.
func (c *cluster) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	var secret corev1.Secret
	if err := c.client.Get(ctx, c.name(name), &secret); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return &secret, nil
}

// podOf returns the newest pod of a Job; nil if there is none.
func (c *cluster) podOf(ctx context.Context, job *batchv1.Job, key string) (*corev1.Pod, error) {
	var list corev1.PodList
	if err := c.client.List(ctx, &list, c.withKey(key)...); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var newest *corev1.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		if metav1.IsControlledBy(pod, job) && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	return newest, nil
}

// warning returns the newest warning about the object with that UID; "" if there is
// none. A reason of "" stands for all.
func (c *cluster) warning(ctx context.Context, uid types.UID, reason string) string {
	var list corev1.EventList
	err := c.client.List(ctx, &list, client.InNamespace(c.namespace), client.MatchingFields{"involvedObject.uid": string(uid)})
	if err != nil {
		return "" // events are what makes a message better, nothing more
	}
	var message string
	var newest time.Time
	for i := range list.Items {
		event := &list.Items[i]
		if event.Type != corev1.EventTypeWarning || (reason != "" && event.Reason != reason) {
			continue
		}
		if at := lastSeen(event); message == "" || at.After(newest) {
			message, newest = event.Message, at
		}
	}
	return message
}

func lastSeen(event *corev1.Event) time.Time {
	last := event.CreationTimestamp.Time
	times := []time.Time{event.FirstTimestamp.Time, event.LastTimestamp.Time, event.EventTime.Time}
	if event.Series != nil {
		times = append(times, event.Series.LastObservedTime.Time)
	}
	for _, at := range times {
		if at.After(last) {
			last = at
		}
	}
	return last
}

func (c *cluster) deleteJob(ctx context.Context, job *batchv1.Job, foreground bool) error {
	propagation := metav1.DeletePropagationBackground
	if foreground {
		propagation = metav1.DeletePropagationForeground
	}
	return c.delete(ctx, job, client.PropagationPolicy(propagation), client.Preconditions{UID: &job.UID})
}

func (c *cluster) deleteSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.delete(ctx, secret, client.Preconditions{UID: &secret.UID})
}

// delete deletes an object; that it is gone, or another has its name, is no error.
func (c *cluster) delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := c.client.Delete(ctx, object, options...); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %s: %w", object.GetName(), err)
	}
	return nil
}

// changes returns a channel that says when a Job or a pod of the key may have changed.
// Stop ends it and waits for what it started.
func (c *cluster) changes(ctx context.Context, key string) (changed <-chan struct{}, stop func()) {
	wakes := make(chan struct{}, 1)
	wake := func() {
		select {
		case wakes <- struct{}{}:
		default:
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, list := range []func() client.ObjectList{
		func() client.ObjectList { return &batchv1.JobList{} },
		func() client.ObjectList { return &corev1.PodList{} },
	} {
		running.Go(func() { c.watch(ctx, key, list, wake) })
	}
	return wakes, func() {
		cancel()
		running.Wait()
	}
}

// watch calls wake whenever a watch begins, has something to tell or cannot be held
// up, until ctx is done.
func (c *cluster) watch(ctx context.Context, key string, list func() client.ObjectList, wake func()) {
	for failures := 1; ctx.Err() == nil; failures = min(failures+1, maxFailures) {
		if w, err := c.client.Watch(ctx, list(), c.withKey(key)...); err == nil {
			if hear(ctx, w, wake) {
				failures = 1
			}
		}
		if request.Sleep(ctx, request.Delay(failures)) == nil {
			wake()
		}
	}
}

// maxFailures is from when on delays do not grow any more.
const maxFailures = 8

// hear calls wake at the beginning and for each event, until the watch or ctx ends. It
// says whether there was an event.
func hear(ctx context.Context, w watch.Interface, wake func()) (heard bool) {
	defer w.Stop()
	wake()
	for {
		select {
		case <-ctx.Done():
			return heard
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				return heard
			}
			heard = true
			wake()
		}
	}
}
