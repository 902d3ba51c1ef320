// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
)

// ActionResolver reaches the RestoreItemActions of plugins.
type ActionResolver interface {
	lifecycle.PluginLoader
	// RestoreItemAction returns how to reach an action of a plugin, which need not be loaded
	// yet. An empty kind means RestoreItemAction.
	RestoreItemAction(pluginObject, kind, action string) pluginclient.ResolveFunc[pluginclient.RestoreItemAction]
}
