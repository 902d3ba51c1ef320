// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Enforce calls load with the rules for everything in a cluster, and again whenever they
// change, until ctx ends. Rules that cannot be made or loaded are logged and tried again;
// those of before hold meanwhile.
func Enforce(ctx context.Context, config *rest.Config, load func(ctx context.Context, rules string) error) error {
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	// All of them are one question, whatever has changed.
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	err = builder.ControllerManagedBy(manager).Named("network-policies").
		Watches(&networkingv1.NetworkPolicy{}, all).
		Watches(&corev1.Pod{}, all).
		Watches(&corev1.Namespace{}, all).
		Complete(&enforcer{reader: manager.GetClient(), load: load})
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return manager.Start(ctx)
}

// enforcer is called by one goroutine at a time.
type enforcer struct {
	reader client.Reader
	load   func(ctx context.Context, rules string) error
	loaded string
}

var _ reconcile.Reconciler = (*enforcer)(nil)

// Reconcile loads the rules if they are not those that hold.
func (e *enforcer) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	w, err := e.world(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	rules, err := w.Rules()
	if err != nil || rules == e.loaded {
		return reconcile.Result{}, err
	}
	if err := e.load(ctx, rules); err != nil {
		return reconcile.Result{}, err
	}
	e.loaded = rules
	return reconcile.Result{}, nil
}

func (e *enforcer) world(ctx context.Context) (World, error) {
	var (
		policies   networkingv1.NetworkPolicyList
		pods       corev1.PodList
		namespaces corev1.NamespaceList
	)
	err := errors.Join(e.reader.List(ctx, &policies), e.reader.List(ctx, &pods), e.reader.List(ctx, &namespaces))
	return World{policies.Items, pods.Items, namespaces.Items}, err
}
