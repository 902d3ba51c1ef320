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
type ActionID = adapter.ActionID

// ConflictingPlugin is another plugin that registers an action of a plugin and is refused for it.
type ConflictingPlugin struct {
	// Plugin is the name of its Plugin object.
	Plugin string
	// Action is what both register.
	Action ActionID
}

// registration is what a plugin provides, or would provide if it were not refused.
type registration struct {
	created time.Time
	actions []ActionID
}

func newRegistration(created time.Time, actions ...map[ActionID]adapter.ActionVersion) registration {
	all := map[ActionID]bool{}
	for _, some := range actions {
		for id := range some {
			all[id] = true
		}
	}
	return registration{created: created, actions: slices.SortedFunc(maps.Keys(all), compareActionIDs)}
}

func compareActionIDs(a, b ActionID) int { return strings.Compare(a.String(), b.String()) }

// ownership is what the claims of all mean for one plugin.
type ownership struct {
	// owner is the plugin that owns action, which this one registers as well; it is empty
	// if this one owns everything that it registers.
	owner  string
	action ActionID
	// conflictingPlugins are sorted by plugin and action.
	conflictingPlugins []ConflictingPlugin
}

func (v ownership) isRefused() bool { return v.owner != "" }

func (v ownership) equal(other ownership) bool {
	return v.owner == other.owner && v.action == other.action && slices.Equal(v.conflictingPlugins, other.conflictingPlugins)
}

// decideOwnerships says who owns what: the oldest plugin all that it registers, every later one the
// same unless an older one owns a part of it. One that is refused owns nothing. Of two
// that were created in the same second the name decides, so that it is always the same.
func decideOwnerships(claims map[string]registration) map[string]ownership {
	names := slices.SortedFunc(maps.Keys(claims), func(a, b string) int {
		return cmp.Or(claims[a].created.Compare(claims[b].created), strings.Compare(a, b))
	})
	owners := map[ActionID]string{}
	verdicts := map[string]ownership{}
	for _, name := range names {
		var mine ownership
		for _, id := range claims[name].actions {
			owner, taken := owners[id]
			if !taken {
				continue
			}
			if !mine.isRefused() {
				mine.owner, mine.action = owner, id
			}
			theirs := verdicts[owner]
			theirs.conflictingPlugins = append(theirs.conflictingPlugins, ConflictingPlugin{Plugin: name, Action: id})
			verdicts[owner] = theirs
		}
		verdicts[name] = mine
		if mine.isRefused() {
			continue
		}
		for _, id := range claims[name].actions {
			owners[id] = name
		}
	}
	for _, v := range verdicts {
		slices.SortFunc(v.conflictingPlugins, func(a, b ConflictingPlugin) int {
			return cmp.Or(strings.Compare(a.Plugin, b.Plugin), compareActionIDs(a.Action, b.Action))
		})
	}
	return verdicts
}

// resolveOwnersLocked applies the claims and returns the plugins for which something changed.
func (c *Catalog) resolveOwnersLocked() []string {
	verdicts := decideOwnerships(c.registrations)
	var changed []string
	for name, v := range verdicts {
		if !v.equal(c.ownerships[name]) {
			changed = append(changed, name)
		}
	}
	c.ownerships = verdicts
	slices.Sort(changed)
	return changed
}

// notifyChanged tells the plugins in names but one that something changed for them. It is called
// without the mutex.
func (c *Catalog) notifyChanged(names []string, but string) {
	for _, name := range names {
		if name != but && c.onChange != nil {
			c.onChange(name)
		}
	}
}

// newDuplicateActionError is the error of a plugin that is refused.
func (c *Catalog) newDuplicateActionError(name string, v ownership) *LoadError {
	return &LoadError{Reason: ReasonDuplicateAction, Message: c.redactLine(fmt.Sprintf(
		"%s is provided by the older Plugin %q already and may not be provided by %q as well: remove one of the two Plugins",
		v.action, v.owner, name))}
}
