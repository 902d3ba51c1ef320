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

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
)

// ActionID identifies an action that only one plugin may provide: by its kind and
// registered name, regardless of versions.
type ActionID = pluginclient.ActionID

// ConflictingPlugin is another plugin that registers the same action as a plugin and is refused
// because of it.
type ConflictingPlugin struct {
	// Plugin is the name of its Plugin object.
	Plugin string
	// Action is the action that both register.
	Action ActionID
}

// registration is the set of actions that a plugin provides, or would provide if it were
// not refused.
type registration struct {
	created time.Time
	actions []ActionID
}

func newRegistration(created time.Time, actions ...map[ActionID]pluginclient.ActionVersion) registration {
	all := map[ActionID]bool{}
	for _, some := range actions {
		for id := range some {
			all[id] = true
		}
	}
	return registration{created: created, actions: slices.SortedFunc(maps.Keys(all), compareActionIDs)}
}

func compareActionIDs(a, b ActionID) int { return strings.Compare(a.String(), b.String()) }

// ownership is the result of all registrations for one plugin.
type ownership struct {
	// owner is the plugin that owns action, which this plugin also registers. It is empty
	// if this plugin owns everything that it registers.
	owner  string
	action ActionID
	// conflictingPlugins are sorted by plugin and action.
	conflictingPlugins []ConflictingPlugin
}

func (v ownership) isRefused() bool { return v.owner != "" }

func (v ownership) equal(other ownership) bool {
	return v.owner == other.owner && v.action == other.action && slices.Equal(v.conflictingPlugins, other.conflictingPlugins)
}

// decideOwnerships returns which plugin owns which actions. Each plugin, oldest first, owns all
// actions that it registers unless an older one owns any of them. A refused plugin owns nothing.
// For plugins created in the same second, the name decides, which makes the result deterministic.
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

// resolveOwnersLocked applies the registrations and returns the plugins whose ownership
// changed.
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

// notifyChanged calls OnChange for the plugins in names except one. It is called without the
// mutex.
func (c *Catalog) notifyChanged(names []string, but string) {
	for _, name := range names {
		if name != but && c.onChange != nil {
			c.onChange(name)
		}
	}
}

// newDuplicateActionError returns the error of a refused plugin.
func (c *Catalog) newDuplicateActionError(name string, v ownership) *LoadError {
	return &LoadError{Reason: ReasonDuplicateAction, Message: c.redactLine(fmt.Sprintf(
		"%s is already provided by the older Plugin %q and must not be provided by %q as well: remove one of the two Plugins",
		v.action, v.owner, name))}
}
