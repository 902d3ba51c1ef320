// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/redact"
)

// pageSize is the number of objects that one list request returns at most.
const pageSize = 500

// Object is a Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// List is a list of Kubernetes objects.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// Page selects one page of a list.
type Page struct {
	// Namespace is empty for all namespaces.
	Namespace string
	// Selector is nil for all objects.
	Selector labels.Selector
	// Limit is the maximum number of objects in the page.
	Limit int64
	// Continue is the continue token of the previous page; empty for the first page.
	Continue string
}

// API is what a Quiescer needs of an API server. NewForClient uses one that works through a
// client. It may be used concurrently. Answers must not come from a cache: a cache would have to
// hold every pod, and decisions would be based on stale objects.
type API interface {
	// List reads one page into a list of apps/v1, autoscaling/v2, batch/v1 or v1 objects, or into a
	// metav1.PartialObjectMetadataList.
	List(ctx context.Context, into List, page Page) error
	// Get reads an object of the kind of into.
	Get(ctx context.Context, key types.NamespacedName, into Object) error
	// Patch applies a JSON merge patch to the object of this kind and name, under the given field
	// manager. It updates object with the result.
	Patch(ctx context.Context, object Object, patch []byte, manager string) error
}

// Options configure a Quiescer.
type Options struct {
	// OperatorNamespace is never quiesced: a stopped operator cannot unquiesce anything.
	OperatorNamespace string
	// Redactor removes secrets from the answers of the API server. If nil, a Redactor is used that
	// knows only common shapes of secrets.
	Redactor *redact.Redactor
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Quiescer quiesces and unquiesces workloads. It may be used concurrently, also by several
// operators at a time.
type Quiescer struct {
	cluster API
	options Options
}

// New returns a Quiescer. For a controller-runtime client, see NewForClient.
func New(c API, o Options) *Quiescer {
	if o.Redactor == nil {
		o.Redactor = redact.New()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Quiescer{cluster: c, options: o}
}

// scope is what a list request covers.
type scope struct {
	// namespace is empty for all namespaces.
	namespace string
	// selector is nil for all objects.
	selector labels.Selector
}

// forEachObject lists objects page by page and passes each to fn, which may keep it. Every page
// needs a list of its own: a list that is decoded into another one shares maps with it.
func (q *Quiescer) forEachObject(ctx context.Context, empty func() List, where scope, fn func(runtime.Object)) error {
	page := Page{Namespace: where.namespace, Selector: where.selector, Limit: pageSize}
	for {
		list := empty()
		if err := q.cluster.List(ctx, list, page); err != nil {
			return err
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			fn(o)
			return nil
		})
		if err != nil {
			return err
		}
		if page.Continue = list.GetContinue(); page.Continue == "" {
			return nil
		}
	}
}

// listWorkloads lists the workloads of one kind.
func (q *Quiescer) listWorkloads(ctx context.Context, kind WorkloadKind, where scope) ([]Workload, error) {
	var found []Workload
	empty := func() List { return newWorkloadList(kind) }
	err := q.forEachObject(ctx, empty, where, func(o runtime.Object) { found = append(found, toWorkload(o)) })
	if err != nil {
		return nil, fmt.Errorf("listing objects of kind %s: %w", kind, err)
	}
	return found, nil
}

// getWorkload reads one workload.
func (q *Quiescer) getWorkload(ctx context.Context, ref Ref) (Workload, error) {
	object := newWorkloadObject(ref.Kind)
	if err := q.cluster.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, object); err != nil {
		return Workload{}, err
	}
	return toWorkload(object), nil
}

// patchWorkload patches one workload, unless it has changed since it was read. If the patch removes
// the state, patchWorkload also removes Grapnel's entries from managedFields. A failure of that
// second step is harmless: the entries are then as after kubectl scale.
func (q *Quiescer) patchWorkload(ctx context.Context, w Workload, patch Patch) error {
	data, err := patch.JSON(w)
	if err != nil {
		return err
	}
	object := newWorkloadObject(w.Kind)
	object.SetNamespace(w.Namespace)
	object.SetName(w.Name)
	if err := q.cluster.Patch(ctx, object, data, FieldOwner); err != nil || patch.State != nil {
		return err
	}
	if err := q.restoreManagedFields(ctx, object, w.Kind, patch.FieldManagers); err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("Grapnel remains in the managedFields of a workload", "workload", w.String(),
			"error", q.options.Redactor.String(err.Error()))
	}
	return nil
}

// restoreManagedFields removes Grapnel's entries from managedFields. The workload's controller
// writes the status at the same moment, so restoreManagedFields tries a few times. It stops if the
// object was replaced or quiesced again in the meantime.
func (q *Quiescer) restoreManagedFields(ctx context.Context, object Object, kind WorkloadKind, owners []FieldManager) error {
	var err error
	for range maxApplyAttempts {
		data, needed := ManagedFieldsPatch(object, kind, owners)
		if !needed {
			return nil
		}
		if err = q.cluster.Patch(ctx, object, data, FieldOwner); !apierrors.IsConflict(err) {
			return err
		}
		fresh := newWorkloadObject(kind)
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
		if err := q.cluster.Get(ctx, key, fresh); err != nil || fresh.GetUID() != object.GetUID() {
			return err
		}
		object = fresh
	}
	return err
}

// listControllerUIDs lists the objects of a kind and maps the UID of each to the UID of its
// controller, or to "" if it has none.
func (q *Quiescer) listControllerUIDs(ctx context.Context, where scope, apiVersion, kind string, into map[types.UID]types.UID) error {
	empty := func() List {
		return &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind + "List"}}
	}
	err := q.forEachObject(ctx, empty, where, func(o runtime.Object) {
		if object, ok := o.(metav1.Object); ok {
			into[object.GetUID()] = ""
			if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
				into[object.GetUID()] = owner.UID
			}
		}
	})
	if err != nil {
		return fmt.Errorf("listing objects of kind %s: %w", kind, err)
	}
	return nil
}

// forEachAutoscaler calls fn for each HorizontalPodAutoscaler in the scope.
func (q *Quiescer) forEachAutoscaler(ctx context.Context, where scope, fn func(*autoscalingv2.HorizontalPodAutoscaler)) error {
	empty := func() List { return &autoscalingv2.HorizontalPodAutoscalerList{} }
	return q.forEachObject(ctx, empty, where, func(o runtime.Object) {
		if scaler, ok := o.(*autoscalingv2.HorizontalPodAutoscaler); ok {
			fn(scaler)
		}
	})
}

// forEachPod calls fn for each pod in the scope.
func (q *Quiescer) forEachPod(ctx context.Context, where scope, fn func(*corev1.Pod)) error {
	empty := func() List { return &corev1.PodList{} }
	return q.forEachObject(ctx, empty, where, func(o runtime.Object) {
		if pod, ok := o.(*corev1.Pod); ok {
			fn(pod)
		}
	})
}

func newWorkloadObject(kind WorkloadKind) Object {
	object, _ := newObjectAndList(kind)
	return object
}

func newWorkloadList(kind WorkloadKind) List {
	_, list := newObjectAndList(kind)
	return list
}
