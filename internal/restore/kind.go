// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"iter"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// kind is one resource of the archive in the version that is restored.
type kind struct {
	resource schema.GroupResource
	// folder of the archive: a version, or empty for the objects without one.
	folder string
	// served is the resource in the version that most of its objects are
	// restored in. It is the zero Resource if the cluster does not serve it.
	served     discovery.Resource
	isServed   bool
	namespaced bool
	inclusion  selection.Inclusion
	// never says why no object of the resource is restored.
	never string
	// actions and normal are the parts of run.actions and run.normal that
	// concern the resource.
	actions, normal []restoreaction.Action
	// outside are the actions of the request that may concern its objects.
	outside []*concern
	// asked says that actions were asked.
	asked atomic.Bool
	// withStatus says that the status is restored, unless an object says
	// otherwise.
	withStatus bool
	// fresh says that this run created the definition of the resource.
	fresh bool
	// looked says that those of its objects that exist are dealt with.
	looked bool
	// listed says that those of its selected objects that exist are known, but for
	// what was created since.
	listed atomic.Bool

	// objects are those of the archive, and marks what is known of each.
	objects archive.Objects
	marks   []mark
	// listedAs is the key of the objects in the list of resources; see outcomes.
	listedAs string
}

// entry is one object of the archive. The zero entry is none.
type entry struct {
	archive.Spooled
	*mark
}

// mark is what a run knows of one object. It is small, for there may be millions.
type mark struct {
	state atomic.Uint32
	// inScope says that it may be restored: it is cluster-scoped or in a
	// selected namespace.
	inScope bool
	// selected says that it is restored for its own sake, and not only if
	// another object needs it.
	selected bool
	// outcome is for the list of resources.
	outcome outcomeMark
	// there says that the object is in the cluster. It is set before the state says
	// finished, and not read before.
	there bool
}

// The states of an entry.
const (
	pending uint32 = iota
	running
	stalled // running, and waiting for something that takes its time
	finished
)

// claim takes an entry for the caller to restore, and returns false if somebody
// else has it.
func (m *mark) claim() bool { return m.state.CompareAndSwap(pending, running) }

// entry returns the one at a place.
func (k *kind) entry(at int) entry { return entry{k.objects.At(at), &k.marks[at]} }

// entries goes through the objects that may be restored, sorted by namespace
// and name.
func (k *kind) entries() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for i := range k.marks {
			if k.marks[i].inScope && !yield(k.entry(i)) {
				return
			}
		}
	}
}

// isEmpty reports whether there is nothing that may be restored.
func (k *kind) isEmpty() bool {
	for range k.entries() {
		return false
	}
	return true
}

// find returns an object that may be restored.
func (k *kind) find(namespace, name string) (entry, bool) {
	at, found := k.objects.Find(namespace, name)
	if !found || !k.marks[at].inScope {
		return entry{}, false
	}
	return k.entry(at), true
}

// countSelected returns how many entries are restored for their own sake.
func (k *kind) countSelected() int {
	count := 0
	for i := range k.marks {
		if k.marks[i].selected {
			count++
		}
	}
	return count
}

func concerned(actions []restoreaction.Action, resource schema.GroupResource) []restoreaction.Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a restoreaction.Action) bool { return !a.AppliesTo(resource) })
}
