// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/operation"
)

// trackedOperation is an unfinished operation. The first group of fields is constant and may be
// read by calls. The rest belongs to the reconcile of the operation, of which there is one at a
// time.
type trackedOperation struct {
	name types.NamespacedName
	uid  types.UID
	// kind and action name the action, plugin the Plugin that provides it, and id is the ID that
	// the action gave the operation.
	kind               v1alpha1.ActionKind
	action, plugin, id string
	parentRef          v1alpha1.ParentReference
	parent             *parent
	// The IDs of its calls, and of the wait for its plugin.
	pollID, cancelID, loadID string
	// cancelInFlight means that a call of Cancel holds its slot.
	cancelInFlight atomic.Bool
	// priority is closed when the plugin has answered the Cancel of the operation.
	priority chan struct{}

	memory operation.Memory
	// status is the newest status, which may be unwritten; nil until the first reconcile.
	status *v1alpha1.AsyncOperationStatus
	// emittedPhase and emittedReason are those of the last event and log line.
	emittedPhase  v1alpha1.AsyncOperationPhase
	emittedReason string
	// prioritized means that priority is closed.
	prioritized bool
	// replacedVersion is the version of the object that the last write replaced. A write of a cached
	// object of that version would be a conflict.
	replacedVersion string
	// writeTime is when the waiting status may be written; zero if none waits.
	writeTime time.Time
}

// trackedOperations are the unfinished operations. It is safe for concurrent use; the zero value is
// ready to use.
type trackedOperations struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]*trackedOperation
	// endingCalls are unfinished calls of operations that are no longer tracked.
	endingCalls map[types.NamespacedName][]string
}

var errUntracked = errors.New("the operation has finished or was deleted")

// trackOperation returns the tracked operation, and starts tracking an operation that is new to
// this process.
func (r *Reconciler) trackOperation(name types.NamespacedName, op *v1alpha1.AsyncOperation) *trackedOperation {
	r.tracked.mu.Lock()
	k := r.tracked.byName[name]
	r.tracked.mu.Unlock()
	if k != nil && k.uid == op.UID {
		return k
	}
	r.untrackOperation(name) // a previous operation of the same name
	uid := string(op.UID)
	k = &trackedOperation{
		name: name, uid: op.UID, kind: op.Spec.Kind, action: op.Spec.ActionName, plugin: op.Spec.PluginRef.Name,
		id: op.Spec.OperationID, parentRef: op.Spec.ParentRef, parent: r.parents.acquireParent(types.UID(op.Spec.ParentRef.UID)),
		pollID: uid + "/poll", cancelID: uid + "/cancel", loadID: uid + "/plugin", priority: make(chan struct{}),
		emittedPhase: op.Status.Phase, emittedReason: succeededReason(op),
	}
	r.tracked.mu.Lock()
	defer r.tracked.mu.Unlock()
	if r.tracked.byName == nil {
		r.tracked.byName = map[types.NamespacedName]*trackedOperation{}
	}
	r.tracked.byName[name] = k
	r.Metrics.open.WithLabelValues(k.plugin).Inc()
	return k
}

// untrackOperation stops tracking an operation that has finished or was deleted, and cancels its
// calls.
func (r *Reconciler) untrackOperation(name types.NamespacedName) {
	r.tracked.mu.Lock()
	k := r.tracked.byName[name]
	delete(r.tracked.byName, name)
	r.tracked.mu.Unlock()
	if k != nil {
		r.parents.releaseParent(types.UID(k.parentRef.UID))
		r.Metrics.open.WithLabelValues(k.plugin).Dec()
		r.tracked.addEndingCalls(k)
		for _, id := range []string{k.pollID, k.cancelID, k.loadID} {
			r.calls.Cancel(id, errUntracked)
		}
		r.collectFinishedCalls(name)
	}
}

// addEndingCalls remembers the calls of an operation that is no longer tracked.
func (o *trackedOperations) addEndingCalls(k *trackedOperation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.endingCalls == nil {
		o.endingCalls = map[types.NamespacedName][]string{}
	}
	o.endingCalls[k.name] = append(o.endingCalls[k.name], k.pollID, k.cancelID, k.loadID)
}

// collectFinishedCalls forgets finished calls of operations that are no longer tracked.
func (r *Reconciler) collectFinishedCalls(name types.NamespacedName) {
	r.tracked.mu.Lock()
	defer r.tracked.mu.Unlock()
	var open []string
	for _, id := range r.tracked.endingCalls[name] {
		r.calls.Forget(id)
		if _, is := r.calls.LookupOutcome(id); is {
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		delete(r.tracked.endingCalls, name)
		return
	}
	r.tracked.endingCalls[name] = open
}
