// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

const (
	goesOn   = v1alpha1.AsyncOperationPhaseInProgress
	finished = v1alpha1.AsyncOperationPhaseCompleted
)

// TestPrepareRetry starts another attempt only when all operations of the previous one have
// ended.
func TestPrepareRetry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		attempts  int32
		phases    []v1alpha1.AsyncOperationPhase
		may       bool
		cancelled int
	}{
		"the first":                    {may: true},
		"after one without operations": {attempts: 1, may: true},
		"after operations that ended":  {attempts: 1, phases: []v1alpha1.AsyncOperationPhase{finished, finished}, may: true},
		"while one is running":         {attempts: 1, phases: []v1alpha1.AsyncOperationPhase{finished, goesOn}, cancelled: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			for i, phase := range tc.phases {
				objects = append(objects, standing(string(rune('a'+i)), phase))
			}
			d, b := driverWith(t, nil, objects...), queued("nightly", 0)
			b.Status.Attempts = tc.attempts
			s := newScope(BackupKind, b)
			if err := d.ReconcileOperations(t.Context(), s, "archive"); err != nil {
				t.Fatal(err)
			}
			if may := d.PrepareRetry(s); may != tc.may {
				t.Errorf("the attempt may start: %v, want %v", may, tc.may)
			}
			if n := cancelledAfter(t, d, s); n != tc.cancelled {
				t.Errorf("%d operations are to be canceled, want %d", n, tc.cancelled)
			}
			if tc.may && (b.Status.Operations != nil || conditions.Get(b, v1alpha1.ConditionOperationsSucceeded) != nil) {
				t.Errorf("the status still has the earlier operations: %+v", b.Status)
			}
			if !tc.may && !strings.Contains(b.Status.Message, "1 operation of the interrupted attempt") {
				t.Errorf("the message is %q", b.Status.Message)
			}
		})
	}
}

// TestOnOperationsChange reports the operations of all attempts of a run until it has finished.
func TestOnOperationsChange(t *testing.T) {
	t.Parallel()
	b := queued("nightly", 0)
	b.Finalizers = []string{v1alpha1.FinalizerRun}
	earlier, current := standing("a", finished), standing("b", goesOn)
	current.Spec.Attempt = 2
	d := driverWith(t, nil, b, earlier, current)
	b.Status.Attempts = 2
	d.queue = newQueue(1, func(types.NamespacedName) {})
	reported := map[types.UID]int{}
	d.OnOperationsChange = func(run types.UID, count int) { reported[run] = count }
	if err := d.ReconcileOperations(t.Context(), newScope(BackupKind, b), "archive"); err != nil {
		t.Fatal(err)
	}
	if n := reported[b.UID]; n != 2 {
		t.Errorf("%d operations are reported, want 2", n)
	}
	if err := d.RemoveFinalizer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if n, is := reported[b.UID]; n != 0 || !is {
		t.Errorf("%d operations are reported of a finished run, want 0", n)
	}
}

// TestCancelOperations_ReusedID checks that an operation is not canceled together with one of an
// earlier attempt that has the same ID.
func TestCancelOperations_ReusedID(t *testing.T) {
	t.Parallel()
	first, second, other := standing("a", goesOn), standing("a", goesOn), standing("b", goesOn)
	first.Spec.OperationID, second.Spec.OperationID, other.Spec.OperationID = "job", "job", "another"
	second.Name, second.Spec.Attempt = "a-2", 2
	d, b := driverWith(t, nil, first, second, other), queued("nightly", 0)
	b.Status.Attempts = 2
	s := newScope(BackupKind, b)
	if err := d.ReconcileOperations(t.Context(), s, "archive"); err != nil {
		t.Fatal(err)
	}
	if n := cancelledAfter(t, d, s); n != 1 {
		t.Errorf("%d operations are canceled, want only the one whose ID was not reused", n)
	}
}

// TestAwaitOperations_StaleCache has a cache with operations of an earlier attempt that does not show
// one of this attempt yet.
func TestAwaitOperations_StaleCache(t *testing.T) {
	t.Parallel()
	earlier, current := standing("a", finished), standing("b", goesOn)
	current.Spec.Attempt = 2
	d, b := driverWith(t, nil, earlier), queued("nightly", 0)
	live := driverWith(t, nil, earlier.DeepCopy(), current)
	d.Reader = live.Client
	b.Status.Attempts = 2
	await := func(cache client.Client) bool {
		t.Helper()
		d.Client = cache
		s := newScope(BackupKind, b)
		s.MarkItemsProcessed(1)
		done, err := d.AwaitOperations(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	if await(d.Client) {
		t.Error("the Backup does not wait for an operation that was started")
	}
	if await(live.Client) {
		t.Error("the Backup does not wait for a running operation")
	}
	d.Reader = nil // no further request
	if await(live.Client) {
		t.Error("the Backup no longer waits")
	}
}

// TestNewOperationRecorder_Outage checks that recording survives an outage of the API server of
// some seconds.
func TestNewOperationRecorder_Outage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := driverWith(t, slices.Repeat([]error{errors.New("connection refused")}, 40))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := d.NewOperationRecorder(newScope(BackupKind, queued("nightly", 0)))(ctx, move("data")); err != nil {
			t.Error(err)
		}
	})
}
