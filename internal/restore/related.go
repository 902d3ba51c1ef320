// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"sync"

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

// await waits until somebody else has restored e, unless that one waits, perhaps
// through others, for parent: objects that need each other cannot all be first.
func (s *relatedItems) await(parent, e *mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for next := e; next != nil; next = s.waits[next] {
		if next == parent {
			return
		}
	}
	s.waits[parent] = e
	defer delete(s.waits, parent)
	for e.state.Load() == running {
		s.done.Wait()
	}
}

// restoreAdditional restores what an object needs, if it may be restored. An
// object that exists does not need it before its turn.
func (r *run) restoreAdditional(ctx context.Context, it *item, exists bool) {
	for _, ref := range it.additional {
		k, e, missing := r.lookUp(ref)
		if missing != "" {
			it.warnings = append(it.warnings, fmt.Sprintf("it needs %s, %s", write.Target{
				Resource: ref.Resource.WithVersion(""), Namespace: ref.Namespace, Name: ref.Name,
			}, missing))
		}
		if e.mark == nil || exists && e.selected && r.req.Policy != ExistingRecreate {
			continue
		}
		if !e.claim() {
			r.related.await(it.entry.mark, e.mark)
			continue
		}
		r.related.begin(it.entry.mark, e.mark)
		r.restoreEntry(ctx, k, e, nil)
		r.related.end(it.entry.mark)
	}
}

// lookUp finds an object that another one needs. There is none, and nothing is
// missing, if it is left out on purpose.
func (r *run) lookUp(ref restoreaction.Ref) (k *kind, e entry, missing string) {
	const absent = "which is not in the backup"
	k = r.kinds[ref.Resource]
	switch {
	case k == nil:
		return nil, e, absent
	case k.never != "" || k.inclusion == selection.Excluded || ref.Namespace != "" && !r.selection.IncludesNamespace(ref.Namespace):
		return nil, e, ""
	}
	found, ok := k.find(ref.Namespace, ref.Name)
	switch {
	case !ok:
		return nil, e, absent
	case !k.isServed && r.promised[k.resource] == nil:
		return nil, e, "which the cluster does not serve"
	}
	return k, found, ""
}
