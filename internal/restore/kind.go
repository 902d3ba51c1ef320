// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// kind is one resource of the archive in the version that is restored.
type kind struct {
	resource schema.GroupResource
	// storedVersion of the archive: a version, or empty for the objects without one.
	storedVersion string
	// served is the resource in the version in which most of its objects are restored. It
	// is the zero Resource if the cluster does not serve it.
	served     discovery.Resource
	isServed   bool
	namespaced bool
	inclusion  selection.Inclusion
	// neverReason is the reason why no object of the resource is restored.
	neverReason string
	// actions and normalizers are the parts of enginePass.actions and normalizers that handle
	// the resource.
	actions, normalizers []itemaction.RestoreAction
	// pluginActions are the actions of the request that may handle its objects.
	pluginActions []*resourceAction
	// engineActionsExecuted reports that actions were called.
	engineActionsExecuted atomic.Bool
	// modified reports that modifiers matched one of its objects.
	modified atomic.Bool
	// withStatus reports that the status is restored, unless an object's annotation
	// overrides it.
	withStatus bool
	// crdCreated reports that this run created the definition of the resource.
	crdCreated bool
	// existingCompared reports that its existing objects are finished.
	existingCompared bool
	// existingListed reports that its existing selected objects are known, except those
	// created since.
	existingListed atomic.Bool

	// workTime is how long the run worked on the resource, in nanoseconds.
	workTime atomic.Int64

	// objects are those of the archive, and statuses the status of each.
	objects  archive.Objects
	statuses []itemStatus
	// listKey is the key of the objects in the list of resources; see
	// outcomeTracker.
	listKey string
}

// isForActionsOnly reports that no object of the resource is restored, but that actions of the request
// get those that another action names: the snapshot of a claim, for example. What is selected does not
// matter for them.
func (k *kind) isForActionsOnly() bool { return k.neverReason != "" && len(k.pluginActions) > 0 }

// entry is one object of the archive. The zero entry means none.
type entry struct {
	archive.SpooledObject
	*itemStatus
}

// itemStatus is the state of one object in a run. It is small, for there may be millions.
type itemStatus struct {
	state atomic.Uint32
	// inScope reports that it may be restored: it is cluster-scoped or in a selected
	// namespace.
	inScope bool
	// selected reports that it is restored because it is selected, and not only if another
	// object needs it.
	selected bool
	// outcome is for the list of resources.
	outcome outcomeCode
	// exists reports that the object is in the cluster. It is set before the state becomes
	// finished, and not read before.
	exists bool
}

// The states of an entry.
const (
	statePending uint32 = iota
	stateRunning
	stateStalled // running, and waiting for something slow
	stateFinished
)

// tryStart claims an entry for the caller, and returns false if another worker has it.
func (m *itemStatus) tryStart() bool { return m.state.CompareAndSwap(statePending, stateRunning) }

// entryAt returns the entry at an index.
func (k *kind) entryAt(at int) entry { return entry{k.objects.At(at), &k.statuses[at]} }

// entriesInScope iterates over the objects that may be restored, sorted by namespace and
// name.
func (k *kind) entriesInScope() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for i := range k.statuses {
			if k.statuses[i].inScope && !yield(k.entryAt(i)) {
				return
			}
		}
	}
}

// addWorkTime adds the time since the run began to work on the resource.
func (k *kind) addWorkTime(begun time.Time) { k.workTime.Add(int64(time.Since(begun))) }

// isEmpty reports whether there are no objects in scope.
func (k *kind) isEmpty() bool {
	for range k.entriesInScope() {
		return false
	}
	return true
}

// findEntry returns an object that may be restored.
func (k *kind) findEntry(namespace, name string) (entry, bool) {
	at, found := k.objects.Find(namespace, name)
	if !found || !k.statuses[at].inScope {
		return entry{}, false
	}
	return k.entryAt(at), true
}

// countSelected returns the number of selected entries.
func (k *kind) countSelected() int {
	count := 0
	for i := range k.statuses {
		if k.statuses[i].selected {
			count++
		}
	}
	return count
}

func actionsForResource(actions []itemaction.RestoreAction, resource schema.GroupResource) []itemaction.RestoreAction {
	return slices.DeleteFunc(slices.Clone(actions), func(a itemaction.RestoreAction) bool { return !a.AppliesTo(resource) })
}
