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
	"github.com/grapnel-dev/grapnel/internal/kube/operation"
)

// known is an operation that goes on. Its first part is fixed and may be read by calls;
// the rest belongs to the pass that looks at the operation, of which there is one at a
// time.
type known struct {
	name types.NamespacedName
	uid  types.UID
	// kind and action name the action, plugin the Plugin that provides it, and id what it
	// started.
	kind               v1alpha1.ActionKind
	action, plugin, id string
	subject            v1alpha1.SubjectReference
	parent             *parent
	// The names of its calls, and of the wait for its plugin.
	pollID, cancelID, loadID string
	// cancelling says that a call of Cancel has its place.
	cancelling atomic.Bool
	// hurry is closed when the plugin has answered the Cancel of the operation.
	hurry chan struct{}

	memory operation.Memory
	// status is the newest one, which may not be written yet; nil until the first pass.
	status *v1alpha1.AsyncOperationStatus
	// phase and reason were told last, in an event and the log.
	phase  v1alpha1.AsyncOperationPhase
	reason string
	// hurried says that hurry is closed.
	hurried bool
	// turn is when the status may be written that waits for that; zero if none does.
	turn time.Time
}

// knownOperations are the operations that go on. It is safe for concurrent use; the zero
// one is ready.
type knownOperations struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*known
	// frugal follows how many there are.
	frugal frugal
	// ending are calls about operations that were forgotten before these ended.
	ending map[types.NamespacedName][]string
}

var errForgotten = errors.New("the operation has ended, or is gone")

// know returns what is known of an operation, which is little if it is seen for the first
// time.
func (r *Reconciler) know(name types.NamespacedName, op *v1alpha1.AsyncOperation) *known {
	r.known.mu.Lock()
	k := r.known.all[name]
	r.known.mu.Unlock()
	if k != nil && k.uid == op.UID {
		return k
	}
	r.forget(name) // another one that had its name
	uid := string(op.UID)
	k = &known{
		name: name, uid: op.UID, kind: op.Spec.Kind, action: op.Spec.PluginName, plugin: op.Spec.PluginRef.Name,
		id: op.Spec.OperationID, subject: op.Spec.Subject, parent: r.parents.hold(types.UID(op.Spec.Subject.UID)),
		pollID: uid + "/poll", cancelID: uid + "/cancel", loadID: uid + "/plugin", hurry: make(chan struct{}),
		phase: op.Status.Phase, reason: reasonOf(op),
	}
	r.known.mu.Lock()
	defer r.known.mu.Unlock()
	if r.known.all == nil {
		r.known.all = map[types.NamespacedName]*known{}
	}
	r.known.all[name] = k
	r.known.frugal.adapt(len(r.known.all))
	r.Metrics.open.WithLabelValues(k.plugin).Inc()
	return k
}

// forget drops what is known of an operation that has ended or is gone, and ends its
// calls.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.known.mu.Lock()
	k := r.known.all[name]
	delete(r.known.all, name)
	r.known.frugal.adapt(len(r.known.all))
	r.known.mu.Unlock()
	if k != nil {
		r.parents.release(types.UID(k.subject.UID))
		r.Metrics.open.WithLabelValues(k.plugin).Dec()
		r.known.end(k)
		for _, id := range []string{k.pollID, k.cancelID, k.loadID} {
			r.calls.Cancel(id, errForgotten)
		}
		r.sweep(name)
	}
}

// end takes note of the calls of an operation that is forgotten.
func (o *knownOperations) end(k *known) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ending == nil {
		o.ending = map[types.NamespacedName][]string{}
	}
	o.ending[k.name] = append(o.ending[k.name], k.pollID, k.cancelID, k.loadID)
}

// sweep lets go of calls that have ended and that nobody waits for any more.
func (r *Reconciler) sweep(name types.NamespacedName) {
	r.known.mu.Lock()
	defer r.known.mu.Unlock()
	var open []string
	for _, id := range r.known.ending[name] {
		r.calls.Forget(id)
		if _, is := r.calls.State(id); is {
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		delete(r.known.ending, name)
		return
	}
	r.known.ending[name] = open
}
