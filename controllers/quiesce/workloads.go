// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

// setupWorkloadSources adds a cache of its own to the manager, and returns what tells of changes in it. That
// of the manager knows only the operator's namespace, and does not keep who wrote a field,
// which decides whose a state is. As long as nothing is quiesced it is empty.
func (r *Reconciler) setupWorkloadSources(mgr ctrl.Manager) ([]source.Source, error) {
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
	r.workloadReader = quiesced
	mapToAll := func(context.Context, *metav1.PartialObjectMetadata) []reconcile.Request { return singletonRequest() }
	var sources []source.Source
	for _, kind := range state.WorkloadKinds() {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(gvkForWorkloadKind(kind))
		sources = append(sources, source.Kind(quiesced, object, handler.TypedEnqueueRequestsFromMapFunc(mapToAll)))
	}
	return sources, nil
}

// gvkForWorkloadKind returns the kind of a workload with its group and version.
func gvkForWorkloadKind(kind state.WorkloadKind) schema.GroupVersionKind {
	if kind == state.CronJob || kind == state.Job {
		return batchv1.SchemeGroupVersion.WithKind(string(kind))
	}
	return appsv1.SchemeGroupVersion.WithKind(string(kind))
}

// heldWorkloads are the workloads that are quiesced.
type heldWorkloads []heldWorkload

type heldWorkload struct {
	state.Workload
	object *metav1.PartialObjectMetadata
}

// listHeldWorkloads returns the workloads that are quiesced.
func (r *Reconciler) listHeldWorkloads(ctx context.Context) (heldWorkloads, error) {
	var found heldWorkloads
	for _, kind := range state.WorkloadKinds() {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvkForWorkloadKind(kind))
		if err := r.workloadReader.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing what is quiesced: %w", err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			object.SetGroupVersionKind(gvkForWorkloadKind(kind)) // events need it
			found = append(found, heldWorkload{workloadFromMetadata(kind, object), object})
		}
	}
	return found, nil
}

// holderUIDs returns the runs that they are quiesced for.
func (h heldWorkloads) holderUIDs() []types.UID {
	uids := map[types.UID]bool{}
	for _, w := range h {
		for _, uid := range state.HolderUIDs(w.Workload) {
			uids[types.UID(uid)] = true
		}
	}
	return slices.Sorted(maps.Keys(uids))
}

// expiredWorkloads returns those whose time is over if some runs do not count, and when that of the next one
// is; zero is never.
func (h heldWorkloads) expiredWorkloads(now time.Time, ended []string) (due map[state.Ref]*metav1.PartialObjectMetadata, next time.Time) {
	due = map[state.Ref]*metav1.PartialObjectMetadata{}
	for _, w := range h {
		at, over := state.NextExpiration(w.Workload, now, ended...)
		if over {
			due[w.Ref] = w.object
		}
		next = earlierNonZeroTime(next, at)
	}
	return due, next
}

// workloadFromMetadata returns what the metadata of an object say of it.
func workloadFromMetadata(kind state.WorkloadKind, object *metav1.PartialObjectMetadata) state.Workload {
	return state.Workload{
		Ref: state.Ref{Kind: kind, Namespace: object.Namespace, Name: object.Name}, UID: string(object.UID),
		Annotations: object.Annotations, ManagedFields: object.ManagedFields,
	}
}
