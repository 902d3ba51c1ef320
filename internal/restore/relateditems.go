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
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// dependencyTracker lets workers wait for an object that must be restored first.
type dependencyTracker struct {
	mu           sync.Mutex
	stateChanged *sync.Cond
	// waitsFor maps an object that is being restored to the one for which it waits.
	waitsFor map[*itemStatus]*itemStatus
}

func (s *dependencyTracker) initWaits() {
	s.stateChanged = sync.NewCond(&s.mu)
	s.waitsFor = map[*itemStatus]*itemStatus{}
}

// markFinished marks an entry as finished with any outcome.
func (s *dependencyTracker) markFinished(e *itemStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.state.Store(stateFinished)
	s.stateChanged.Broadcast()
}

// addWait records that parent waits for e, and end that it no longer does.
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

// markStalled records that e, and with it everything that waits for e, waits for something
// slow.
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

// waitUntilFinished waits until another worker has restored e, unless e waits, perhaps
// through others, for parent: objects that need each other cannot all be first. If e is
// stalled, the own slot is yielded to others.
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

// maxRelatedDepth bounds the length of a chain of waiting objects. Pods, claims and volumes
// are three; a chain requested by a plugin may be as long as the archive.
const maxRelatedDepth = 100

// restoreRelatedItems restores the related items of an object, if they may be restored, and
// returns those that are in the cluster afterwards. An existing object does not need them
// before its turn.
func (r *enginePass) restoreRelatedItems(ctx context.Context, it *item, refs []itemaction.RelatedItem) []itemaction.RelatedItem {
	var there []itemaction.RelatedItem
	for _, ref := range refs {
		k, e, missing := r.findRelatedItem(ref)
		if missing != "" {
			it.creationWarnings = append(it.creationWarnings, fmt.Sprintf("it needs %s, %s", rawclient.Target{
				Resource: ref.Resource.WithVersion(""), Namespace: ref.Namespace, Name: ref.Name,
			}, missing))
		}
		switch {
		case e.itemStatus == nil || it.existing != nil && e.selected && r.req.Policy != ExistingRecreate:
			continue
		case k.resource == namespaceResource:
			// Creating a namespace restores its object.
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

// restoreRelatedItem restores a related item, or waits for the worker that does, and
// reports whether it is in the cluster afterwards.
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

// findRelatedItem finds a related item. If the item is excluded deliberately, or is never
// restored and no action of the request wants it, it returns none and reports nothing as missing.
func (r *enginePass) findRelatedItem(ref itemaction.RelatedItem) (k *kind, e entry, missing string) {
	const absent = "which is not in the backup"
	k = r.kinds[ref.Resource]
	ref = k.withServedScope(ref)
	switch {
	case k == nil && !r.allPlanned && r.hasArchivedResource(ref.Resource):
		return nil, e, "which is restored after all CustomResourceDefinitions"
	case k == nil:
		return nil, e, absent
	case k.resource == namespaceResource && !r.selection.IncludesNamespace(ref.Name), r.isExcludedRelated(k, ref):
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

// isExcludedRelated reports whether a related item is excluded, or never restored and of no use to an
// action of the request. An action gets what it needs regardless of the selected resources.
func (r *enginePass) isExcludedRelated(k *kind, ref itemaction.RelatedItem) bool {
	if ref.Namespace != "" && !r.selection.IncludesNamespace(ref.Namespace) {
		return true
	}
	if k.neverReason != "" {
		return !k.isForActionsOnly() || r.req.DryRun
	}
	return k.inclusion == selection.Excluded
}

// withServedScope returns the reference with the scope of the kind: for a cluster-scoped
// item, an action may set the namespace of the object that needs it.
func (k *kind) withServedScope(ref itemaction.RelatedItem) itemaction.RelatedItem {
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
