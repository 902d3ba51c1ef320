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

	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// Client makes requests to the API server. Its reads must not come from a cache: they must return
// what was just written.
type Client = client.WithWatch

// cluster makes the requests of an Executor, all in one namespace.
type cluster struct {
	client    client.WithWatch
	namespace string
}

func (c *cluster) namespacedName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

func (c *cluster) listOptionsForKey(key string) []client.ListOption {
	return []client.ListOption{client.InNamespace(c.namespace), client.MatchingLabels{LabelManagedBy: ManagedBy, LabelKey: key}}
}

// createObject creates an object and updates it with the result.
func (c *cluster) createObject(ctx context.Context, object client.Object) error {
	if err := c.client.Create(ctx, object); err != nil {
		return fmt.Errorf("creating %s: %w", object.GetName(), err)
	}
	return nil
}

func (c *cluster) listJobs(ctx context.Context, key string) ([]batchv1.Job, error) {
	var list batchv1.JobList
	if err := c.client.List(ctx, &list, c.listOptionsForKey(key)...); err != nil {
		return nil, fmt.Errorf("listing Jobs: %w", err)
	}
	return list.Items, nil
}

// getJob returns a Job; nil if it does not exist.
func (c *cluster) getJob(ctx context.Context, name string) (*batchv1.Job, error) {
	var job batchv1.Job
	if err := c.client.Get(ctx, c.namespacedName(name), &job); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the Job: %w", err)
	}
	return &job, nil
}

// getSecret returns a Secret; nil if it does not exist.
func (c *cluster) getSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	var secret corev1.Secret
	if err := c.client.Get(ctx, c.namespacedName(name), &secret); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return &secret, nil
}

// findNewestPod returns the newest pod of a Job; nil if there is none.
func (c *cluster) findNewestPod(ctx context.Context, job *batchv1.Job, key string) (*corev1.Pod, error) {
	var list corev1.PodList
	if err := c.client.List(ctx, &list, c.listOptionsForKey(key)...); err != nil {
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

// newestWarning returns the newest warning event about the object with that UID; "" if there is
// none. An empty reason matches all.
func (c *cluster) newestWarning(ctx context.Context, uid types.UID, reason string) string {
	var list corev1.EventList
	err := c.client.List(ctx, &list, client.InNamespace(c.namespace), client.MatchingFields{"involvedObject.uid": string(uid)})
	if err != nil {
		return "" // events only make messages better
	}
	var message string
	var newest time.Time
	for i := range list.Items {
		event := &list.Items[i]
		if event.Type != corev1.EventTypeWarning || (reason != "" && event.Reason != reason) {
			continue
		}
		if at := latestEventTime(event); message == "" || at.After(newest) {
			message, newest = event.Message, at
		}
	}
	return message
}

func latestEventTime(event *corev1.Event) time.Time {
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
	return c.deleteObject(ctx, job, client.PropagationPolicy(propagation), client.Preconditions{UID: &job.UID})
}

func (c *cluster) deleteSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.deleteObject(ctx, secret, client.Preconditions{UID: &secret.UID})
}

// deleteObject deletes an object. It is not an error if the object does not exist or was replaced.
func (c *cluster) deleteObject(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := c.client.Delete(ctx, object, options...); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %s: %w", object.GetName(), err)
	}
	return nil
}

// watchChanges returns a channel that signals when a Job or a pod of the key may have changed. stop
// ends the watches and waits for their goroutines.
func (c *cluster) watchChanges(ctx context.Context, key string) (changed <-chan struct{}, stop func()) {
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
		running.Go(func() { c.watchObjects(ctx, key, list, wake) })
	}
	return wakes, func() {
		cancel()
		running.Wait()
	}
}

// watchObjects calls wake whenever a watch begins, receives an event or fails, until ctx is done.
func (c *cluster) watchObjects(ctx context.Context, key string, list func() client.ObjectList, wake func()) {
	for failures := 1; ctx.Err() == nil; failures++ {
		if w, err := c.client.Watch(ctx, list(), c.listOptionsForKey(key)...); err == nil {
			if forwardWatchEvents(ctx, w, wake) {
				failures = 1
			}
		}
		if rawclient.Sleep(ctx, rawclient.BackoffDelay(failures)) == nil {
			wake()
		}
	}
}

// forwardWatchEvents calls wake at the beginning and for each event, until the watch or ctx ends.
// It reports whether there was an event.
func forwardWatchEvents(ctx context.Context, w watch.Interface, wake func()) (heard bool) {
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
