// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

func nothing(*testing.T, *testOperator, *disturbance) {}

// cancelPre cancels the run while its Pre action works.
func cancelPre(t *testing.T, l *testOperator, d *disturbance) {
	t.Helper()
	stopInPreAction(t, l, d, cancel(t, l))
}

// deletePre deletes it then.
func deletePre(t *testing.T, l *testOperator, d *disturbance) {
	t.Helper()
	stopInPreAction(t, l, d, deleteRun(t, l))
}

// deleteRun deletes a run.
func deleteRun(t *testing.T, l *testOperator) func(name string) {
	t.Helper()
	return func(name string) {
		if err := l.client.Delete(t.Context(), l.partial(name)); err != nil {
			t.Errorf("deleting: %v", err)
		}
	}
}

// stopInPreAction stops the run once its Pre action is called: a started HookRun alone can
// be stopped before that.
func stopInPreAction(t *testing.T, l *testOperator, d *disturbance, stop func(name string)) {
	t.Helper()
	var once sync.Once
	stopped := make(chan struct{})
	t.Cleanup(func() {
		once.Do(func() { close(stopped) })
		<-stopped
	})
	d.onEvent = func(object client.Object) {
		run, ok := object.(*v1alpha1.HookRun)
		if !ok || run.Spec.Hook != l.work.kind().PreHookPoint || run.Status.StartTimestamp == nil || run.Spec.ParentRef.Name != d.api.run {
			return
		}
		once.Do(func() {
			go func() {
				defer close(stopped)
				if l.awaitCalls(t, 1, func(c call) bool { return c.Key == string(run.UID) }) {
					stop(run.Spec.ParentRef.Name)
				}
			}()
		})
	}
}

// cancelArchive cancels a Backup while its archive is stored.
func cancelArchive(t *testing.T, l *testOperator, d *disturbance) {
	t.Helper()
	cancelAt(d.store, cancel(t, l), ".tar.gz")
}

// cancelObjects cancels a Restore while its namespaces are created.
func cancelObjects(t *testing.T, l *testOperator, d *disturbance) {
	t.Helper()
	cancelAt(d.api, cancel(t, l), "POST /api/v1/namespaces fieldManager")
}

// cancelAt stops a run at a write, which is never made.
func cancelAt(at *trap, stop func(name string), write string) {
	at.meet = func(ctx context.Context, kind string) {
		if strings.HasSuffix(kind, write) {
			stop(at.run)
			<-ctx.Done()
		}
	}
}

// cancel cancels a run, once.
func cancel(t *testing.T, l *testOperator) func(name string) {
	t.Helper()
	var once sync.Once
	return func(name string) {
		once.Do(func() {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"Cancel"}}`))
			if err := l.client.Patch(t.Context(), l.partial(name), patch); err != nil {
				t.Errorf("cancelling: %v", err)
			}
		})
	}
}
