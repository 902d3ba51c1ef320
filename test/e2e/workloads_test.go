// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }

// createNamespace creates a namespace that is deleted when the test has ended.
func (c *cluster) createNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	c.kubectl(ctx, "create", "namespace", name)
	DeferCleanup(func(ctx SpecContext) {
		c.kubectl(ctx, "delete", "namespace", name, "--ignore-not-found", "--timeout=110s")
	}, NodeTimeout(minutes(2)))
}

// plugin applies a Plugin that is deleted when the test has ended, and waits until it is loaded.
func (c *cluster) plugin(ctx context.Context, name, spec string) {
	GinkgoHelper()
	c.apply(ctx, "apiVersion: grapnel.dev/v1alpha1\nkind: Plugin\nmetadata: {name: "+name+"}\nspec:\n"+indent(spec)+"\n")
	DeferCleanup(func(ctx SpecContext) {
		c.kubectl(ctx, "delete", "plugin", name, "--ignore-not-found", "--timeout=110s")
	}, NodeTimeout(minutes(2)))
	c.pluginReady(ctx, name)
}

// pods returns the names of the pods of a namespace in which something may run.
func (c *cluster) pods(ctx context.Context, in string) func() (string, error) {
	return func() (string, error) {
		return c.try(ctx, "get", "pods", "-n", in, "--field-selector=status.phase!=Succeeded,status.phase!=Failed", "-o", "jsonpath={range .items[*]}{.metadata.name} {end}")
	}
}

// rolledOut waits until a workload runs as it should.
func (c *cluster) rolledOut(ctx context.Context, in string, workloads ...string) {
	GinkgoHelper()
	for _, workload := range workloads {
		c.kubectl(ctx, "rollout", "status", workload, "-n", in, "--timeout=120s")
	}
}

// numbers returns how many replicas are wanted of workloads, and what is suspended.
func (c *cluster) numbers(ctx context.Context, in string) string {
	GinkgoHelper()
	return c.kubectl(ctx, "get", "deployments,statefulsets,cronjobs", "-n", in, "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.name}={.spec.replicas}{.spec.suspend} {end}`)
}

// keepScaled sets the replicas of a Deployment again whenever they are 0, as an operator of
// the application would, until the returned function is called.
func (c *cluster) keepScaled(ctx context.Context, in, name string, replicas int32) (stop func()) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	w, err := c.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(in), client.MatchingFields{"metadata.name": name})
	Expect(err).NotTo(HaveOccurred())
	up := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		for event := range w.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok && d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
				err := c.Patch(ctx, d, up, client.FieldOwner("shop-operator"))
				Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
			}
		}
	}()
	return func() {
		w.Stop()
		<-done
		cancel()
	}
}
