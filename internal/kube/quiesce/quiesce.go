// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/quiesce"
)

// New returns a Quiescer that works through a client. The client must bypass caches (client.New,
// not the manager's client) and know the kinds of AddToScheme.
func New(c client.Client, o quiesce.Options) *quiesce.Quiescer {
	return quiesce.New(cluster{client: c}, o)
}

// AddToScheme adds the kinds that a Quiescer reads and writes.
func AddToScheme(scheme *runtime.Scheme) error {
	all := runtime.NewSchemeBuilder(appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme)
	return all.AddToScheme(scheme)
}

// cluster implements quiesce.API.
type cluster struct{ client client.Client }

func (c cluster) List(ctx context.Context, into quiesce.List, page quiesce.Page) error {
	return c.client.List(ctx, into, &client.ListOptions{
		Namespace: page.Namespace, LabelSelector: page.Selector, Limit: page.Limit, Continue: page.Continue,
	})
}

func (c cluster) Get(ctx context.Context, key types.NamespacedName, into quiesce.Object) error {
	return c.client.Get(ctx, key, into)
}

func (c cluster) Patch(ctx context.Context, object quiesce.Object, patch []byte, manager string) error {
	return c.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(manager))
}
