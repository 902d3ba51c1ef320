// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// newParent returns an empty object of the kind of the parent.
func newParent(run *v1alpha1.HookRun) client.Object {
	switch run.Spec.ParentRef.Kind {
	case lifecycle.RestoreKind.Name:
		return &v1alpha1.Restore{}
	case lifecycle.DeletionRunKind.Name:
		return &v1alpha1.DeletionRun{}
	}
	return &v1alpha1.Backup{}
}

// newParentStub returns the parent with the fields that the HookRun has.
func newParentStub(run *v1alpha1.HookRun) client.Object {
	stub := newParent(run)
	stub.SetNamespace(run.Namespace)
	stub.SetName(run.Spec.ParentRef.Name)
	stub.SetUID(types.UID(run.Spec.ParentRef.UID))
	return stub
}

var errReplaced = errors.New("replaced by another object of the same name")

// readParent reads the parent of a HookRun. The error is errReplaced or NotFound if the parent
// no longer exists.
func readParent(ctx context.Context, reader client.Reader, run *v1alpha1.HookRun) (client.Object, error) {
	parent := newParent(run)
	key := types.NamespacedName{Namespace: run.Namespace, Name: run.Spec.ParentRef.Name}
	err := reader.Get(ctx, key, parent)
	if err == nil && string(parent.GetUID()) != run.Spec.ParentRef.UID {
		err = errReplaced
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", run.Spec.ParentRef.Kind, key.Name, err)
	}
	return parent, nil
}

// readBackoff is the back-off between attempts to read the parent.
func readBackoff() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Cap: 5 * time.Second, Steps: math.MaxInt32}
}

// readWithRetry calls read until the deadline of ctx. A short outage of the API server is not a
// failure of the action.
func readWithRetry(ctx context.Context, read func(context.Context) error) (err error) {
	waited := wait.ExponentialBackoffWithContext(ctx, readBackoff(), func(ctx context.Context) (bool, error) {
		err = read(ctx)
		return err == nil || isNotFoundOrReplaced(err) || apierrors.IsForbidden(err), nil
	})
	if err == nil {
		err = waited
	}
	return err
}

// readParentWithRetry is readParent until the deadline of ctx.
func readParentWithRetry(ctx context.Context, reader client.Reader, run *v1alpha1.HookRun) (parent client.Object, err error) {
	err = readWithRetry(ctx, func(ctx context.Context) (err error) {
		parent, err = readParent(ctx, reader, run)
		return err
	})
	return parent, err
}

func isNotFoundOrReplaced(err error) bool {
	return errors.Is(err, errReplaced) || apierrors.IsNotFound(err)
}

// addCallContext adds the parent and, for Post actions, the outputs of the Pre actions.
// The parent is read past the cache: a Post action must see the final phase,
// which was written just before the action was started.
func (r *Reconciler) addCallContext(ctx context.Context, run *v1alpha1.HookRun, call *executor.Call) error {
	parent, err := readParentWithRetry(ctx, r.Reader, run)
	if isNotFoundOrReplaced(err) && run.Spec.Owed {
		parent, err = r.lastParentState(run), nil
	}
	if err != nil {
		return err
	}
	if deletion, ok := parent.(*v1alpha1.DeletionRun); ok {
		return r.addDeletedBackup(ctx, deletion, call)
	}
	parent.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(run.Spec.ParentRef.Kind))
	parent.SetManagedFields(nil)
	if call.Subject, err = json.Marshal(parent); err != nil {
		return fmt.Errorf("encoding %s %s: %w", run.Spec.ParentRef.Kind, parent.GetName(), err)
	}
	if restore, ok := parent.(*v1alpha1.Restore); ok {
		call.BackupName, call.BackupOutputs = restore.Status.BackupName, toStringOutputs(restore.Status.BackupOutputs)
	}
	pre, after := preHookPoints[run.Spec.Hook]
	if !after {
		return nil
	}
	call.Outputs, err = r.listOutputs(ctx, run, pre)
	return err
}

// preHookPoints maps each Post hook point to its Pre hook point.
var preHookPoints = map[v1alpha1.HookPoint]v1alpha1.HookPoint{
	v1alpha1.HookPostBackup: v1alpha1.HookPreBackup, v1alpha1.HookPostRestore: v1alpha1.HookPreRestore,
}

// addDeletedBackup adds the Backup that a DeletionRun deletes, converted to velero.io/v1.
func (r *Reconciler) addDeletedBackup(ctx context.Context, d *v1alpha1.DeletionRun, call *executor.Call) error {
	var b v1alpha1.Backup
	err := readWithRetry(ctx, func(ctx context.Context) error {
		err := r.Reader.Get(ctx, types.NamespacedName{Namespace: d.Namespace, Name: d.Status.BackupName}, &b)
		if err == nil && string(b.UID) != d.Status.BackupUID {
			err = errReplaced
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("reading Backup %s: %w", d.Status.BackupName, err)
	}
	call.BackupName, call.BackupOutputs = b.StoredName(), toStringOutputs(d.Status.BackupOutputs)
	call.Subject, err = lifecycle.BackupToVelero(&b)
	return err
}

func toStringOutputs(outputs map[string]v1alpha1.ParameterSet) map[string]map[string]string {
	plain := map[string]map[string]string{}
	for name, values := range outputs {
		plain[name] = lifecycle.ToStringMap(values)
	}
	return plain
}

// listOutputs returns the outputs of the actions of another hook point of the same parent.
func (r *Reconciler) listOutputs(ctx context.Context, run *v1alpha1.HookRun, point v1alpha1.HookPoint) (map[string]map[string]string, error) {
	siblings, err := r.listHookRuns(ctx, run.Namespace, run.Spec.ParentRef.UID)
	if err != nil {
		return nil, fmt.Errorf("reading the outputs of the %s actions: %w", point, err)
	}
	outputs := map[string]map[string]string{}
	for _, sibling := range siblings {
		if sibling.Spec.Hook == point && len(sibling.Status.Outputs) > 0 {
			outputs[sibling.Spec.ActionName] = lifecycle.ToStringMap(sibling.Status.Outputs)
		}
	}
	return outputs, nil
}
