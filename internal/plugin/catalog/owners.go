// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
)

// ActionID is what two plugins may not have in common: the kind and the registered name
// of an action, whatever its versions.
type ActionID = adapter.ID

// Rival is another plugin that registers an action of a plugin and is refused for it.
type Rival struct {
	// Plugin is the name of its Plugin object.
	Plugin string
	// Action is what both register.
	Action ActionID
}

// claim is what a plugin provides, or would provide if it were not refused.
type claim struct {
	created time.Time
	actions []ActionID
}

func claimOf(created time.Time, actions ...map[ActionID]adapter.Version) claim {
	all := map[ActionID]bool{}
	for _, some := range actions {
		for id := range some {
			all[id] = true
		}
	}
	return claim{created: created, actions: slices.SortedFunc(maps.Keys(all), compareIDs)}
}

func compareIDs(a, b ActionID) int { return strings.Compare(a.String(), b.String()) }

// verdict is what the claims of all mean for one plugin.
type verdict struct {
	// owner is the plugin that owns action, which this one registers as well; it is empty
	// if this one owns everything that it registers.
	owner  string
	action ActionID
	// rivals are sorted by plugin and action.
	rivals []Rival
}

func (v verdict) refused() bool { return v.owner != "" }

func (v verdict) equal(other verdict) bool {
	return v.owner == other.owner && v.action == other.action && slices.Equal(v.rivals, other.rivals)
}

// judge says who owns what: the oldest plugin all that it registers, every later one the
// same unless an older one owns a part of it. One that is refused owns nothing. Of two
// that were created in the same second the name decides, so that it is always the same.
func judge(claims map[string]claim) map[string]verdict {
	names := slices.SortedFunc(maps.Keys(claims), func(a, b string) int {
		return cmp.Or(claims[a].created.Compare(claims[b].created), strings.Compare(a, b))
	})
	owners := map[ActionID]string{}
	verdicts := map[string]verdict{}
	for _, name := range names {
		var mine verdict
		for _, id := range claims[name].actions {
			owner, taken := owners[id]
			if !taken {
				continue
			}
			if !mine.refused() {
				mine.owner, mine.action = owner, id
			}
			theirs := verdicts[owner]
			theirs.rivals = append(theirs.rivals, Rival{Plugin: name, Action: id})
			verdicts[owner] = theirs
		}
		verdicts[name] = mine
		if mine.refused() {
			continue
		}
		for _, id := range claims[name].actions {
			owners[id] = name
		}
	}
	for _, v := range verdicts {
		slices.SortFunc(v.rivals, func(a, b Rival) int {
			return cmp.Or(strings.Compare(a.Plugin, b.Plugin), compareIDs(a.Action, b.Action))
		})
	}
	return verdicts
}

// settleLocked applies the claims and returns the plugins for which something changed.
func (c *Catalog) settleLocked() []string {
	verdicts := judge(c.claims)
	var changed []string
	for name, v := range verdicts {
		if !v.equal(c.verdicts[name]) {
			changed = append(changed, name)
		}
	}
	c.verdicts = verdicts
	slices.Sort(changed)
	return changed
}

// tell tells the plugins in names but one that something changed for them. It is called
// without the mutex.
func (c *Catalog) tell(names []string, but string) {
	for _, name := range names {
		if name != but && c.onChange != nil {
			c.onChange(name)
		}
	}
}

// duplicate is the error of a plugin that is refused.
func (c *Catalog) duplicate(name string, v verdict) *LoadError {
	return &LoadError{Reason: ReasonDuplicateAction, Message: c.clean(fmt.Sprintf(
		"%s is provided by the older Plugin %q already and may not be provided by %q as well: remove one of the two Plugins",
		v.action, v.owner, name))}
}
