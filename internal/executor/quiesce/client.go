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
)

// NewForClient returns a Quiescer that works through a client. The client must bypass caches (client.New,
// not the manager's client) and know the kinds of AddToScheme.
func NewForClient(c client.Client, o Options) *Quiescer {
	return New(clientCluster{client: c}, o)
}

// AddToScheme adds the kinds that a Quiescer reads and writes.
func AddToScheme(scheme *runtime.Scheme) error {
	all := runtime.NewSchemeBuilder(appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme)
	return all.AddToScheme(scheme)
}

// clientCluster implements API with a client.
type clientCluster struct{ client client.Client }

func (c clientCluster) List(ctx context.Context, into List, page Page) error {
	return c.client.List(ctx, into, &client.ListOptions{
		Namespace: page.Namespace, LabelSelector: page.Selector, Limit: page.Limit, Continue: page.Continue,
	})
}

func (c clientCluster) Get(ctx context.Context, key types.NamespacedName, into Object) error {
	return c.client.Get(ctx, key, into)
}

func (c clientCluster) Patch(ctx context.Context, object Object, patch []byte, manager string) error {
	return c.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(manager))
}
