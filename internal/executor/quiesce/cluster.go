// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/redact"
)

// pageSize is the number of objects that one list request returns at most.
const pageSize = 500

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
	client  client.Client
	options Options
}

// New returns a Quiescer that works through a client. The client must bypass caches (client.New, not
// the manager's client): a cache would have to hold every pod, and decisions would be based on stale
// objects. It must know the kinds of AddToScheme.
func New(c client.Client, o Options) *Quiescer {
	if o.Redactor == nil {
		o.Redactor = redact.New()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Quiescer{client: c, options: o}
}

// AddToScheme adds the kinds that a Quiescer reads and writes.
func AddToScheme(scheme *runtime.Scheme) error {
	all := runtime.NewSchemeBuilder(appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme)
	return all.AddToScheme(scheme)
}

// forEachObject lists objects page by page and passes each to fn, which may keep it. Every page
// needs a list of its own: a list that is decoded into another one shares maps with it.
func forEachObject[T runtime.Object](
	ctx context.Context, q *Quiescer, empty func() client.ObjectList, where client.ListOptions, fn func(T),
) error {
	for where.Limit = pageSize; ; {
		list := empty()
		if err := q.client.List(ctx, list, &where); err != nil {
			return err
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if item, ok := o.(T); ok {
				fn(item)
			}
			return nil
		})
		if where.Continue = list.GetContinue(); err != nil || where.Continue == "" {
			return err
		}
	}
}

// listWorkloads lists the workloads of one kind.
func (q *Quiescer) listWorkloads(ctx context.Context, kind WorkloadKind, where client.ListOptions) ([]Workload, error) {
	var found []Workload
	empty := func() client.ObjectList { _, list := newObjectAndList(kind); return list }
	if err := forEachObject(ctx, q, empty, where, func(o client.Object) { found = append(found, toWorkload(o)) }); err != nil {
		return nil, fmt.Errorf("listing objects of kind %s: %w", kind, err)
	}
	return found, nil
}

// getWorkload reads one workload.
func (q *Quiescer) getWorkload(ctx context.Context, ref Ref) (Workload, error) {
	object, _ := newObjectAndList(ref.Kind)
	if err := q.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object); err != nil {
		return Workload{}, err
	}
	return toWorkload(object), nil
}

// mergePatch applies a JSON merge patch under Grapnel's field manager, and updates object with the
// result.
func (q *Quiescer) mergePatch(ctx context.Context, object client.Object, patch []byte) error {
	return q.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldOwner))
}

// patchWorkload patches one workload, unless it has changed since it was read. If the patch removes
// the state, patchWorkload also removes Grapnel's entries from managedFields. A failure of that
// second step is harmless: the entries are then as after kubectl scale.
func (q *Quiescer) patchWorkload(ctx context.Context, w Workload, patch Patch) error {
	data, err := patch.JSON(w)
	if err != nil {
		return err
	}
	object, _ := newObjectAndList(w.Kind)
	object.SetNamespace(w.Namespace)
	object.SetName(w.Name)
	if err := q.mergePatch(ctx, object, data); err != nil || patch.State != nil {
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
func (q *Quiescer) restoreManagedFields(ctx context.Context, object client.Object, kind WorkloadKind, managers []metav1.ManagedFieldsEntry) error {
	var err error
	for range maxApplyAttempts {
		data, needed := ManagedFieldsPatch(object, kind, managers)
		if !needed {
			return nil
		}
		if err = q.mergePatch(ctx, object, data); !apierrors.IsConflict(err) {
			return err
		}
		fresh, _ := newObjectAndList(kind)
		if err := q.client.Get(ctx, client.ObjectKeyFromObject(object), fresh); err != nil || fresh.GetUID() != object.GetUID() {
			return err
		}
		object = fresh
	}
	return err
}

// listControllerUIDs lists the objects of a kind and maps the UID of each to the UID of its
// controller, or to "" if it has none.
func (q *Quiescer) listControllerUIDs(ctx context.Context, where client.ListOptions, kind WorkloadKind, into map[types.UID]types.UID) error {
	empty := func() client.ObjectList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersionKind())
		list.Kind += "List"
		return list
	}
	err := forEachObject(ctx, q, empty, where, func(o client.Object) {
		into[o.GetUID()] = ""
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
			into[o.GetUID()] = owner.UID
		}
	})
	if err != nil {
		return fmt.Errorf("listing objects of kind %s: %w", kind, err)
	}
	return nil
}
