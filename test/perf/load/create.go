// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create makes the objects with the numbers [first, first+count) by object, and
// creates them with as many workers. Built-in kinds are sent as protobuf, which
// costs the API server less than JSON. The first error ends it.
func Create(ctx context.Context, cfg *rest.Config, first, count, workers int, object func(i int) client.Object) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return fmt.Errorf("making a scheme: %w", err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(workers, count) {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= count {
					return nil
				}
				o := object(first + i)
				if err := c.Create(ctx, o); err != nil {
					return fmt.Errorf("creating %T %s/%s: %w", o, o.GetNamespace(), o.GetName(), err)
				}
			}
		})
	}
	return group.Wait()
}
