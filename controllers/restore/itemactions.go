// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
)

// Actions reaches the RestoreItemActions of plugins.
type Actions interface {
	run.Loads
	// RestoreItemAction returns how to reach an action of a plugin, which need not be
	// loaded yet. An empty kind means RestoreItemAction.
	RestoreItemAction(pluginObject, kind, action string) caller.Resolve[adapter.RestoreItemAction]
}
