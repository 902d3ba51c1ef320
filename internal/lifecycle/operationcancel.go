// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// cancelOperations cancels operations that have not ended, after the status is written.
func (d *Driver[T]) cancelOperations(s *Scope[T], operations []v1alpha1.AsyncOperation, why string) {
	var open []types.NamespacedName
	for i := range operations {
		if o := &operations[i]; !o.Ended() && o.Spec.DesiredState != v1alpha1.DesiredStateCancel {
			open = append(open, client.ObjectKeyFromObject(o))
		}
	}
	if len(open) == 0 {
		return
	}
	s.AfterStatusUpdate(func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(maxConcurrentCancels)
		for _, key := range open {
			group.Go(func() error { return d.cancelOperation(ctx, key, why) })
		}
		return group.Wait()
	})
}

// maxConcurrentCancels limits the concurrent requests that cancel the operations of one run.
// There may be ten thousand, and sequential requests would hold up a worker for minutes.
const maxConcurrentCancels = 16

func (d *Driver[T]) cancelOperation(ctx context.Context, key types.NamespacedName, why string) error {
	change, err := json.Marshal(map[string]any{"spec": map[string]any{
		"desiredState": v1alpha1.DesiredStateCancel, "cancelReason": why,
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	operation := &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err = d.Client.Patch(ctx, operation, client.RawPatch(types.MergePatchType, change))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsInvalid(err) {
		return fmt.Errorf("canceling AsyncOperation %s: %w", key.Name, err)
	}
	return nil
}

// withoutDuplicates returns the repeated operations that are not also current ones. An action
// may return the same ID for the same object again, and canceling one of them cancels the other.
func withoutDuplicates(repeated, current []v1alpha1.AsyncOperation) []v1alpha1.AsyncOperation {
	type called struct {
		kind       v1alpha1.ActionKind
		action, id string
	}
	of := func(o *v1alpha1.AsyncOperation) called {
		return called{o.Spec.Kind, o.Spec.ActionName, o.Spec.OperationID}
	}
	if len(repeated) == 0 {
		return nil
	}
	shared := map[called]bool{}
	for i := range current {
		shared[of(&current[i])] = true
	}
	return slices.DeleteFunc(repeated, func(o v1alpha1.AsyncOperation) bool { return shared[of(&o)] })
}

// PrepareRetry prepares an attempt that starts over, and reports whether it may start. The
// operations of the interrupted attempt end first, because an action may return the same ID for
// the same object again.
func (d *Driver[T]) PrepareRetry(s *Scope[T]) bool {
	if s.Object.Run().Attempts == 0 {
		return true
	}
	d.cancelOperations(s, s.Operations, "the "+d.Kind.Name+" starts over, because the operator was interrupted")
	open := int64(0)
	for i := range s.Operations {
		if !s.Operations[i].Ended() {
			open++
		}
	}
	if open > 0 {
		s.MarkRunning(v1alpha1.ReasonCancelling, "Waiting for "+text.Pluralize(open, "operation")+" of the interrupted attempt to end before starting over")
		return false
	}
	s.Operations, s.Object.Run().Operations = nil, nil
	meta.RemoveStatusCondition(&s.Object.Run().Conditions, v1alpha1.ConditionOperationsSucceeded)
	return true
}
