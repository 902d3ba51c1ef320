// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
)

// ActionResolver reaches the RestoreItemActions of plugins.
type ActionResolver interface {
	lifecycle.PluginLoader
	// RestoreItemAction returns how to reach an action of a plugin, which need not be loaded
	// yet. An empty kind means RestoreItemAction.
	RestoreItemAction(pluginObject, kind, action string) caller.ResolveFunc[adapter.RestoreItemAction]
}
