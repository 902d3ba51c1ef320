// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

// watch adds a cache of its own to the manager, and returns what tells of changes in it. That
// of the manager knows only the operator's namespace, and does not keep who wrote a field,
// which decides whose a state is. As long as nothing is quiesced it is empty.
func (r *Reconciler) watch(mgr ctrl.Manager) ([]source.Source, error) {
	quiesced, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{state.Label: "true"}),
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of what is quiesced: %w", err)
	}
	// A function runs on the leader only; a cache would run on all.
	if err := mgr.Add(manager.RunnableFunc(quiesced.Start)); err != nil {
		return nil, fmt.Errorf("adding the cache of what is quiesced: %w", err)
	}
	r.quiesced = quiesced
	all := func(context.Context, *metav1.PartialObjectMetadata) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "all"}}}
	}
	var sources []source.Source
	for _, kind := range state.Kinds() {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kindOf(kind))
		sources = append(sources, source.Kind(quiesced, object, handler.TypedEnqueueRequestsFromMapFunc(all)))
	}
	return sources, nil
}

// kindOf returns the kind of a workload with its group and version.
func kindOf(kind state.Kind) schema.GroupVersionKind {
	if kind == state.CronJob || kind == state.Job {
		return batchv1.SchemeGroupVersion.WithKind(string(kind))
	}
	return appsv1.SchemeGroupVersion.WithKind(string(kind))
}

// look returns the workloads whose time is over, and when that of the next one is; zero is
// never.
func (r *Reconciler) look(ctx context.Context, now time.Time) (due map[state.Ref]*metav1.PartialObjectMetadata, next time.Time, err error) {
	due = map[state.Ref]*metav1.PartialObjectMetadata{}
	for _, kind := range state.Kinds() {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kindOf(kind))
		if err := r.quiesced.List(ctx, list); err != nil {
			return nil, next, fmt.Errorf("listing what is quiesced: %w", err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			object.SetGroupVersionKind(kindOf(kind)) // events need it
			w := workload(kind, object)
			at, over := state.Due(w, now)
			if over {
				due[w.Ref] = object
			}
			next = earlier(next, at)
		}
	}
	return due, next, nil
}

// workload returns what the metadata of an object say of it.
func workload(kind state.Kind, object *metav1.PartialObjectMetadata) state.Workload {
	return state.Workload{
		Ref: state.Ref{Kind: kind, Namespace: object.Namespace, Name: object.Name}, UID: string(object.UID),
		Annotations: object.Annotations, Fields: object.ManagedFields,
	}
}
