// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"slices"
	"strings"
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
	// asked says that actions were asked.
	asked atomic.Bool
	// withStatus says that the status is restored, unless an object says
	// otherwise.
	withStatus bool
	// fresh says that this run created the definition of the resource.
	fresh bool
	// looked says that those of its objects that exist are dealt with.
	looked bool

	// entries are the objects that may be restored, sorted by namespace and
	// name: all of a cluster-scoped resource, and those in selected namespaces.
	entries []entry
}

// entry is one object of the archive.
type entry struct {
	archive.Spooled
	// selected says that it is restored for its own sake, and not only if
	// another object needs it.
	selected bool
	state    atomic.Uint32
}

// The states of an entry.
const (
	pending uint32 = iota
	running
	finished
)

// claim takes an entry for the caller to restore, and returns false if somebody
// else has it.
func (e *entry) claim() bool { return e.state.CompareAndSwap(pending, running) }

// find returns the place of an entry.
func (k *kind) find(namespace, name string) (int, bool) {
	at := k.search(namespace, name)
	if at == len(k.entries) || k.entries[at].Namespace != namespace || k.entries[at].Name != name {
		return 0, false
	}
	return at, true
}

func (k *kind) search(namespace, name string) int {
	low, high := 0, len(k.entries)
	for low < high {
		middle := int(uint(low+high) >> 1)
		e := &k.entries[middle]
		if cmp.Or(strings.Compare(e.Namespace, namespace), strings.Compare(e.Name, name)) < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// countSelected returns how many entries are restored for their own sake.
func (k *kind) countSelected() int {
	count := 0
	for i := range k.entries {
		if k.entries[i].selected {
			count++
		}
	}
	return count
}

func concerned(actions []restoreaction.Action, resource schema.GroupResource) []restoreaction.Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a restoreaction.Action) bool { return !a.AppliesTo(resource) })
}
