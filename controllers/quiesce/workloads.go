// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

// setupWorkloadSources adds a separate cache to the manager, and returns sources for its changes.
// The manager's cache covers only the operator's namespace and drops managedFields, which determine
// the origin of a state. The separate cache is empty while nothing is quiesced.
func (r *Reconciler) setupWorkloadSources(mgr ctrl.Manager) ([]source.Source, error) {
	quiesced, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{quiesce.Label: "true"}),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of quiesced workloads: %w", err)
	}
	// A RunnableFunc runs only on the leader; a cache would run on all replicas.
	if err := mgr.Add(manager.RunnableFunc(quiesced.Start)); err != nil {
		return nil, fmt.Errorf("adding the cache of quiesced workloads: %w", err)
	}
	r.workloadReader = quiesced
	mapToAll := func(context.Context, *metav1.PartialObjectMetadata) []reconcile.Request { return singletonRequest() }
	var sources []source.Source
	for _, kind := range quiesce.WorkloadKinds() {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind.GroupVersionKind())
		sources = append(sources, source.Kind(quiesced, object, handler.TypedEnqueueRequestsFromMapFunc(mapToAll)))
	}
	return sources, nil
}

// heldWorkloads are the quiesced workloads.
type heldWorkloads []heldWorkload

type heldWorkload struct {
	quiesce.Workload
	object *metav1.PartialObjectMetadata
}

// listHeldWorkloads lists the quiesced workloads.
func (r *Reconciler) listHeldWorkloads(ctx context.Context) (heldWorkloads, error) {
	var found heldWorkloads
	for _, kind := range quiesce.WorkloadKinds() {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersionKind())
		if err := r.workloadReader.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing quiesced workloads: %w", err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			object.SetGroupVersionKind(kind.GroupVersionKind()) // events need it
			found = append(found, heldWorkload{quiesce.WorkloadFromMetadata(kind, object), object})
		}
	}
	return found, nil
}

// holderUIDs returns the UIDs of the runs that hold the workloads.
func (h heldWorkloads) holderUIDs() []types.UID {
	uids := map[types.UID]bool{}
	for _, w := range h {
		for _, uid := range quiesce.HolderUIDs(w.Workload) {
			uids[types.UID(uid)] = true
		}
	}
	return slices.Sorted(maps.Keys(uids))
}

// expiredWorkloads returns the workloads whose holds have expired, not counting the runs in ended.
// next is when the next hold expires; zero is never.
func (h heldWorkloads) expiredWorkloads(now time.Time, ended []string) (due map[quiesce.Ref]*metav1.PartialObjectMetadata, next time.Time) {
	due = map[quiesce.Ref]*metav1.PartialObjectMetadata{}
	for _, w := range h {
		at, over := quiesce.NextExpiration(w.Workload, now, ended...)
		if over {
			due[w.Ref] = w.object
		}
		next = earlierNonZeroTime(next, at)
	}
	return due, next
}
