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

// relatedItems lets those who restore an object wait for another one that has
// to be there first.
type relatedItems struct {
	mu   sync.Mutex
	done *sync.Cond
	// waits has, for an object that is being restored, the one it waits for.
	waits map[*mark]*mark
}

func (s *relatedItems) init() {
	s.done = sync.NewCond(&s.mu)
	s.waits = map[*mark]*mark{}
}

// finish marks an entry as restored, whatever became of it.
func (s *relatedItems) finish(e *mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.state.Store(finished)
	s.done.Broadcast()
}

// begin notes that parent waits for e, and end that it does so no longer.
func (s *relatedItems) begin(parent, e *mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits[parent] = e
}

func (s *relatedItems) end(parent *mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waits, parent)
}

// stall notes that e waits for something that takes its time, and with it all that
// wait for e.
func (s *relatedItems) stall(e *mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stallLocked(e)
}

func (s *relatedItems) stallLocked(e *mark) {
	e.state.Store(stalled)
	for waiting := range s.waits {
		for next := s.waits[waiting]; next != nil; next = s.waits[next] {
			if next == e {
				waiting.state.Store(stalled)
				break
			}
		}
	}
	s.done.Broadcast()
}

// await waits until somebody else has restored e, unless that one waits, perhaps
// through others, for parent: objects that need each other cannot all be first. If
// that takes its time, others get the place.
func (s *relatedItems) await(parent, e *mark, own *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for next := e; next != nil; next = s.waits[next] {
		if next == parent {
			return
		}
	}
	s.waits[parent] = e
	defer delete(s.waits, parent)
	for stands := e.state.Load(); stands == running || stands == stalled; stands = e.state.Load() {
		if stands == stalled && parent.state.Load() != stalled {
			s.stallLocked(parent)
		}
		if stands == stalled {
			own.give()
		}
		s.done.Wait()
	}
}

// maxDepth is how many objects may wait for one another in a row. Pods, claims and
// volumes are three; what a plugin asks for may be as long as the archive.
const maxDepth = 100

// restoreAdditional restores what an object needs, if it may be restored, and
// returns what of it is in the cluster then. An object that exists does not need it
// before its turn.
func (r *run) restoreAdditional(ctx context.Context, it *item, refs []restoreaction.Ref) []restoreaction.Ref {
	var there []restoreaction.Ref
	for _, ref := range refs {
		k, e, missing := r.lookUp(ref)
		if missing != "" {
			it.warnings = append(it.warnings, fmt.Sprintf("it needs %s, %s", write.Target{
				Resource: ref.Resource.WithVersion(""), Namespace: ref.Namespace, Name: ref.Name,
			}, missing))
		}
		switch {
		case e.mark == nil || it.found != nil && e.selected && r.req.Policy != ExistingRecreate:
			continue
		case k.resource == namespacesResource:
			// Whoever makes a namespace restores its object.
			if r.namespace(ctx, r.places.target(e.Name)).err == nil {
				there = append(there, ref)
			}
			continue
		}
		if r.restoreNeeded(ctx, it, k, e) {
			there = append(there, ref)
		}
	}
	return there
}

// restoreNeeded restores an object that another one needs, or waits for whoever does,
// and reports whether it is in the cluster then.
func (r *run) restoreNeeded(ctx context.Context, it *item, k *kind, e entry) bool {
	switch {
	case it.depth >= maxDepth && e.state.Load() == pending:
		it.warnings = append(it.warnings, fmt.Sprintf("it needs %s of namespace %q, which is restored in its own turn, if at all: "+
			"more than %d objects need one another in a row", e.Name, e.Namespace, maxDepth))
	case e.claim():
		r.related.begin(it.entry.mark, e.mark)
		r.restoreEntry(ctx, task{kind: k, entry: e, place: it.place, depth: it.depth + 1})
		r.related.end(it.entry.mark)
	default:
		r.related.await(it.entry.mark, e.mark, it.place)
	}
	return e.state.Load() == finished && e.there
}

// lookUp finds an object that another one needs. There is none, and nothing is
// missing, if it is left out on purpose.
func (r *run) lookUp(ref restoreaction.Ref) (k *kind, e entry, missing string) {
	const absent = "which is not in the backup"
	k = r.kinds[ref.Resource]
	ref = k.scoped(ref)
	switch {
	case k == nil && !r.planned && r.inArchive(ref.Resource):
		return nil, e, "which is restored after all CustomResourceDefinitions"
	case k == nil:
		return nil, e, absent
	case k.resource == namespacesResource && !r.selection.IncludesNamespace(ref.Name):
		return nil, e, ""
	case k.never != "" || k.inclusion == selection.Excluded || ref.Namespace != "" && !r.selection.IncludesNamespace(ref.Namespace):
		return nil, e, ""
	}
	found, ok := k.find(ref.Namespace, ref.Name)
	switch {
	case !ok:
		return nil, e, absent
	case !k.isServed && r.promised[k.resource] == nil && len(k.outside) == 0:
		return nil, e, "which the cluster does not serve"
	}
	return k, found, ""
}

// scoped returns the reference as the kind has it: an action may say the namespace of
// what needs an object that has none.
func (k *kind) scoped(ref restoreaction.Ref) restoreaction.Ref {
	if k != nil && k.isServed && !k.served.Namespaced {
		ref.Namespace = ""
	}
	return ref
}

// inArchive reports whether the archive has objects of a resource.
func (r *run) inArchive(resource schema.GroupResource) bool {
	return slices.ContainsFunc(r.req.Archive.Resources(), func(have archive.Resource) bool {
		return have.Name == resource.String()
	})
}
