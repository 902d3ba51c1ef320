// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/kube/write"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// dependencyTracker lets those who restore an object wait for another one that has
// to be there first.
type dependencyTracker struct {
	mu           sync.Mutex
	stateChanged *sync.Cond
	// waitsFor has, for an object that is being restored, the one it waits for.
	waitsFor map[*itemStatus]*itemStatus
}

func (s *dependencyTracker) initWaits() {
	s.stateChanged = sync.NewCond(&s.mu)
	s.waitsFor = map[*itemStatus]*itemStatus{}
}

// markFinished marks an entry as restored, whatever became of it.
func (s *dependencyTracker) markFinished(e *itemStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.state.Store(stateFinished)
	s.stateChanged.Broadcast()
}

// addWait notes that parent waits for e, and end that it does so no longer.
func (s *dependencyTracker) addWait(parent, e *itemStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitsFor[parent] = e
}

func (s *dependencyTracker) removeWait(parent *itemStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waitsFor, parent)
}

// markStalled notes that e waits for something that takes its time, and with it all that
// wait for e.
func (s *dependencyTracker) markStalled(e *itemStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markStalledLocked(e)
}

func (s *dependencyTracker) markStalledLocked(e *itemStatus) {
	e.state.Store(stateStalled)
	for waiting := range s.waitsFor {
		for next := s.waitsFor[waiting]; next != nil; next = s.waitsFor[next] {
			if next == e {
				waiting.state.Store(stateStalled)
				break
			}
		}
	}
	s.stateChanged.Broadcast()
}

// waitUntilFinished waits until somebody else has restored e, unless that one waits, perhaps
// through others, for parent: objects that need each other cannot all be first. If
// that takes its time, others get the place.
func (s *dependencyTracker) waitUntilFinished(parent, e *itemStatus, own *workerSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for next := e; next != nil; next = s.waitsFor[next] {
		if next == parent {
			return
		}
	}
	s.waitsFor[parent] = e
	defer delete(s.waitsFor, parent)
	for stands := e.state.Load(); stands == stateRunning || stands == stateStalled; stands = e.state.Load() {
		if stands == stateStalled && parent.state.Load() != stateStalled {
			s.markStalledLocked(parent)
		}
		if stands == stateStalled {
			own.yieldSlot()
		}
		s.stateChanged.Wait()
	}
}

// maxRelatedDepth is how many objects may wait for one another in a row. Pods, claims and
// volumes are three; what a plugin asks for may be as long as the archive.
const maxRelatedDepth = 100

// restoreRelatedItems restores what an object needs, if it may be restored, and
// returns what of it is in the cluster then. An object that exists does not need it
// before its turn.
func (r *enginePass) restoreRelatedItems(ctx context.Context, it *item, refs []restoreaction.ItemRef) []restoreaction.ItemRef {
	var there []restoreaction.ItemRef
	for _, ref := range refs {
		k, e, missing := r.findRelatedItem(ref)
		if missing != "" {
			it.creationWarnings = append(it.creationWarnings, fmt.Sprintf("it needs %s, %s", write.Target{
				Resource: ref.Resource.WithVersion(""), Namespace: ref.Namespace, Name: ref.Name,
			}, missing))
		}
		switch {
		case e.itemStatus == nil || it.existing != nil && e.selected && r.req.Policy != ExistingRecreate:
			continue
		case k.resource == namespaceResource:
			// Whoever makes a namespace restores its object.
			if r.ensureNamespace(ctx, r.namespaceMapping.targetNamespace(e.Name)).err == nil {
				there = append(there, ref)
			}
			continue
		}
		if r.restoreRelatedItem(ctx, it, k, e) {
			there = append(there, ref)
		}
	}
	return there
}

// restoreRelatedItem restores an object that another one needs, or waits for whoever does,
// and reports whether it is in the cluster then.
func (r *enginePass) restoreRelatedItem(ctx context.Context, it *item, k *kind, e entry) bool {
	switch {
	case it.depth >= maxRelatedDepth && e.state.Load() == statePending:
		it.creationWarnings = append(it.creationWarnings, fmt.Sprintf("it needs %s of namespace %q, which is restored in its own turn, if at all: "+
			"more than %d objects need one another in a row", e.Name, e.Namespace, maxRelatedDepth))
	case e.tryStart():
		r.dependencies.addWait(it.entry.itemStatus, e.itemStatus)
		r.restoreEntry(ctx, startedEntry{kind: k, entry: e, slot: it.slot, depth: it.depth + 1})
		r.dependencies.removeWait(it.entry.itemStatus)
	default:
		r.dependencies.waitUntilFinished(it.entry.itemStatus, e.itemStatus, it.slot)
	}
	return e.state.Load() == stateFinished && e.exists
}

// findRelatedItem finds an object that another one needs. There is none, and nothing is
// missing, if it is left out on purpose.
func (r *enginePass) findRelatedItem(ref restoreaction.ItemRef) (k *kind, e entry, missing string) {
	const absent = "which is not in the backup"
	k = r.kinds[ref.Resource]
	ref = k.withServedScope(ref)
	switch {
	case k == nil && !r.allPlanned && r.hasArchivedResource(ref.Resource):
		return nil, e, "which is restored after all CustomResourceDefinitions"
	case k == nil:
		return nil, e, absent
	case k.resource == namespaceResource && !r.selection.IncludesNamespace(ref.Name):
		return nil, e, ""
	case k.neverReason != "" || k.inclusion == selection.Excluded || ref.Namespace != "" && !r.selection.IncludesNamespace(ref.Namespace):
		return nil, e, ""
	}
	found, ok := k.findEntry(ref.Namespace, ref.Name)
	switch {
	case !ok:
		return nil, e, absent
	case !k.isServed && r.dryRunCRDVersions[k.resource] == nil && len(k.pluginActions) == 0:
		return nil, e, "which the cluster does not serve"
	}
	return k, found, ""
}

// withServedScope returns the reference as the kind has it: an action may say the namespace of
// what needs an object that has none.
func (k *kind) withServedScope(ref restoreaction.ItemRef) restoreaction.ItemRef {
	if k != nil && k.isServed && !k.served.Namespaced {
		ref.Namespace = ""
	}
	return ref
}

// hasArchivedResource reports whether the archive has objects of a resource.
func (r *enginePass) hasArchivedResource(resource schema.GroupResource) bool {
	return slices.ContainsFunc(r.req.Archive.Resources(), func(have archive.Resource) bool {
		return have.Name == resource.String()
	})
}
