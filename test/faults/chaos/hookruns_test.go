// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// hookRuns remembers for which run a HookRun was, because the calls of an action name the
// HookRun alone, which may be gone by then.
type hookRuns struct {
	mu      sync.Mutex
	parents map[string]string
}

// run watches until the context ends.
func (h *hookRuns) run(ctx context.Context, namespace string) {
	for ctx.Err() == nil {
		h.watch(ctx, namespace)
		wait(ctx, 200*time.Millisecond) // the API server is away
	}
}

func (h *hookRuns) watch(ctx context.Context, namespace string) {
	var list v1alpha1.HookRunList
	if err := world.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return
	}
	for i := range list.Items {
		h.add(&list.Items[i])
	}
	w, err := world.Client.Watch(ctx, &v1alpha1.HookRunList{}, client.InNamespace(namespace))
	if err != nil {
		return
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if run, ok := event.Object.(*v1alpha1.HookRun); ok {
			h.add(run)
		}
	}
}

func (h *hookRuns) add(run *v1alpha1.HookRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parents[string(run.UID)] = run.Spec.ParentRef.Kind + " " + run.Spec.ParentRef.Name + " " + run.Labels[v1alpha1.LabelParentUID]
}

// parentOf returns the run of a HookRun, or nothing.
func (h *hookRuns) parentOf(uid string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.parents[uid]
}
