// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// parent is a Backup or Restore with operations, in the state in which the first of them was
// seen. It is safe for concurrent use.
type parent struct {
	// refCount is how many operations use it; parents guards it.
	refCount int
	// logBudget limits what its operations add to its log.
	logBudget runlog.Budget

	mu sync.Mutex
	// valid means that the other fields were read and are up to date.
	valid, orphaned bool
	veleroJSON      []byte
	parameters      map[string]v1alpha1.ParameterSet
}

// parents are the parents of tracked operations. It is safe for concurrent use; the zero value is
// ready to use.
type parents struct {
	mu    sync.Mutex
	byUID map[types.UID]*parent
}

// acquireParent returns a parent, which the caller must release.
func (p *parents) acquireParent(uid types.UID) *parent {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byUID == nil {
		p.byUID = map[types.UID]*parent{}
	}
	if p.byUID[uid] == nil {
		p.byUID[uid] = &parent{}
	}
	p.byUID[uid].refCount++
	return p.byUID[uid]
}

func (p *parents) releaseParent(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held := p.byUID[uid]; held != nil {
		if held.refCount--; held.refCount == 0 {
			delete(p.byUID, uid)
		}
	}
}

// invalidateParent makes the next use read the parent again.
func (p *parents) invalidateParent(uid types.UID) {
	p.mu.Lock()
	held := p.byUID[uid]
	p.mu.Unlock()
	if held != nil {
		held.mu.Lock()
		defer held.mu.Unlock()
		held.valid = false
	}
}

// viewForAction returns the Backup or Restore as an action sees it, converted to velero.io/v1,
// and the parameters that the user configured for the action.
func (p *parent) viewForAction(action string) (view []byte, parameters map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.veleroJSON, lifecycle.ToStringMap(p.parameters[action])
}

// isOrphaned reports whether the Backup or Restore of an operation no longer exists, or has
// finished without the operation.
func (r *Reconciler) isOrphaned(ctx context.Context, k *trackedOperation, op *v1alpha1.AsyncOperation) (bool, error) {
	k.parent.mu.Lock()
	defer k.parent.mu.Unlock()
	if k.parent.valid {
		return k.parent.orphaned, nil
	}
	object, err := r.readParent(ctx, op)
	if err != nil {
		return false, err
	}
	if k.parent.orphaned = object == nil || object.Run().CompletionTimestamp != nil; k.parent.orphaned && k.parent.veleroJSON != nil {
		k.parent.valid = true
		return true, nil // plugins keep seeing its last state
	}
	if k.parent.veleroJSON, err = parentToVeleroJSON(op, object, r.Operations.Timeout); err != nil {
		return false, err
	}
	if object != nil {
		_, k.parent.parameters = object.Desired()
	}
	k.parent.valid = true
	return k.parent.orphaned, nil
}

// readParent returns the Backup or Restore of an operation, or nil if the parent does not exist.
// It confirms that with a read past the cache.
func (r *Reconciler) readParent(ctx context.Context, op *v1alpha1.AsyncOperation) (lifecycle.Object, error) {
	key := types.NamespacedName{Namespace: op.Namespace, Name: op.Spec.ParentRef.Name}
	for _, reader := range []client.Reader{r.Client, r.Reader} {
		var object lifecycle.Object = &v1alpha1.Backup{}
		if op.Spec.ParentRef.Kind == "Restore" {
			object = &v1alpha1.Restore{}
		}
		err := reader.Get(ctx, key, object)
		switch {
		case err == nil && string(object.GetUID()) == op.Spec.ParentRef.UID:
			return object, nil
		case err != nil && !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading %s %s: %w", op.Spec.ParentRef.Kind, key.Name, err)
		}
	}
	return nil, nil //nolint:nilnil // nil means that the parent does not exist
}

// parentToVeleroJSON returns the Backup or Restore of an operation as plugins saw it when they
// started the operation. If the parent no longer exists, that is little more than its name. timeout
// is the default timeout of operations.
func parentToVeleroJSON(op *v1alpha1.AsyncOperation, object lifecycle.Object, timeout time.Duration) ([]byte, error) {
	shown := velero.Object{
		Kind:     op.Spec.ParentRef.Kind,
		Metadata: velero.Metadata{Name: op.Spec.ParentRef.Name, Namespace: op.Namespace, UID: types.UID(op.Spec.ParentRef.UID)},
	}
	if object != nil {
		var err error
		if shown, err = lifecycle.ToVelero(object); err != nil {
			return nil, err
		}
	}
	shown.Phase, shown.OperationTimeout = velero.PhaseInProgress, timeout
	return shown.ToJSON()
}

// isFinishedRun reports whether a Backup or Restore has finished.
func isFinishedRun(object client.Object) bool {
	parent, ok := object.(lifecycle.Object)
	return ok && lifecycle.IsFinished(parent)
}

// parentToOperations maps a deleted or finished Backup or Restore to its operations.
func (r *Reconciler) parentToOperations(ctx context.Context, parent client.Object) []reconcile.Request {
	r.parents.invalidateParent(parent.GetUID())
	var ops v1alpha1.AsyncOperationList
	err := r.Client.List(ctx, &ops, client.UnsafeDisableDeepCopy, client.InNamespace(parent.GetNamespace()),
		client.MatchingLabels{v1alpha1.LabelParentUID: string(parent.GetUID())})
	if err != nil {
		r.log.Error(err, "Listing the AsyncOperations of a deleted or finished parent", "parent", parent.GetName())
		return nil
	}
	requests := make([]reconcile.Request, 0, len(ops.Items))
	for i := range ops.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&ops.Items[i])})
	}
	return requests
}
