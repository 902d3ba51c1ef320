// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/executor"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk"
)

// Executor returns the executor of an action of a loaded plugin: a hook or a DeleteAction. The
// executor of a process stays valid when the plugin is loaded again. Its calls fail as
// Unreachable when the plugin was unloaded, or when its actions are declared now: then call
// Executor again. The executor of a declared action runs what was declared when Executor was
// called. Executor itself fails if there is currently no such plugin or action.
func (c *Catalog) Executor(pluginObject, kind, action string) (executor.Executor, error) {
	id := pluginclient.ActionID{Kind: kind, Name: action}
	if declared := c.declaredExecutor(pluginObject, id); declared != nil {
		return declared, nil
	}
	resolve := newActionResolver(c, pluginObject, id, func(v pluginclient.ActionVersion) (pluginclient.Hook, bool) { return v.Hook, v.Hook != nil })
	if _, _, err := resolve(); err != nil {
		return nil, err
	}
	return newProcessExecutor(id, resolve, c.settings.Redactor), nil
}

// BackupItemAction returns the resolver of an action of a plugin, for
// pluginclient.BackupItemActionSpec. kind is
// "BackupItemAction", the default if empty, or "AsyncBackupItemAction"; actions of another
// kind are not found. The resolver stays valid when the plugin is loaded again, and may be
// requested before the plugin is loaded: its calls fail as long as there is no such plugin
// or action.
func (c *Catalog) BackupItemAction(pluginObject, kind, action string) pluginclient.ResolveFunc[pluginclient.BackupItemAction] {
	id := pluginclient.ActionID{Kind: cmp.Or(kind, string(sdk.KindBackupItemAction)), Name: action}
	return newActionResolver(c, pluginObject, id, func(v pluginclient.ActionVersion) (pluginclient.BackupItemAction, bool) {
		return v.BackupItem, v.BackupItem != nil
	})
}

// RestoreItemAction is BackupItemAction for the kinds "RestoreItemAction", the default if
// empty, and "AsyncRestoreItemAction".
func (c *Catalog) RestoreItemAction(pluginObject, kind, action string) pluginclient.ResolveFunc[pluginclient.RestoreItemAction] {
	id := pluginclient.ActionID{Kind: cmp.Or(kind, string(sdk.KindRestoreItemAction)), Name: action}
	return newActionResolver(c, pluginObject, id, func(v pluginclient.ActionVersion) (pluginclient.RestoreItemAction, bool) {
		return v.RestoreItem, v.RestoreItem != nil
	})
}

// DeleteItemAction is BackupItemAction for the kind with this name.
func (c *Catalog) DeleteItemAction(pluginObject, action string) pluginclient.ResolveFunc[pluginclient.DeleteItemAction] {
	return newActionResolver(c, pluginObject, pluginclient.ActionID{Kind: string(sdk.KindDeleteItemAction), Name: action},
		func(v pluginclient.ActionVersion) (pluginclient.DeleteItemAction, bool) {
			return v.DeleteItem, v.DeleteItem != nil
		})
}

// DeleteAction is BackupItemAction for the kind with this name: for AppliesTo, and for
// Execute outside a run. Executor makes the attempts of a run.
func (c *Catalog) DeleteAction(pluginObject, action string) pluginclient.ResolveFunc[pluginclient.DeleteAction] {
	return newActionResolver(c, pluginObject, pluginclient.ActionID{Kind: string(sdk.KindDeleteAction), Name: action},
		func(v pluginclient.ActionVersion) (pluginclient.DeleteAction, bool) { return v.Delete, v.Delete != nil })
}

// Redactor returns the redactor for the errors of calls, for package client.
func (c *Catalog) Redactor() *redact.Redactor { return c.settings.Redactor }

// newActionResolver returns a resolver that looks up an action on every call. of returns the
// client of the version that the plugin offers, and whether it exists.
func newActionResolver[A any](c *Catalog, pluginObject string, id pluginclient.ActionID, of func(pluginclient.ActionVersion) (A, bool)) pluginclient.ResolveFunc[A] {
	return func() (pluginclient.Connection, A, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		var none A
		p, version, err := c.findActionLocked(pluginObject, id)
		if err != nil {
			return nil, none, err
		}
		action, callable := of(version)
		switch {
		case callable && p.server != nil:
			return c.wrapWithFence(p.server), action, nil
		case callable:
			return noConnection{}, action, nil
		case p.server == nil:
			// The caller began when the plugin had a process.
			return nil, none, fmt.Errorf("the plugin %q was replaced: its actions are declared in the Plugin now", pluginObject)
		default:
			// The kind cannot be called in this way.
			return nil, none, newNotProvidedError(pluginObject, id)
		}
	}
}

// findActionLocked returns a loaded plugin and the version of one of its actions.
func (c *Catalog) findActionLocked(pluginObject string, id pluginclient.ActionID) (*pluginEntry, pluginclient.ActionVersion, error) {
	p := c.plugins[pluginObject]
	if p == nil || (p.server == nil && p.spec.DeclaredActions == nil) {
		return nil, pluginclient.ActionVersion{}, fmt.Errorf("the plugin %q is not loaded: check the conditions of the Plugin", pluginObject)
	}
	version, ok := p.actions[id]
	if !ok {
		return nil, pluginclient.ActionVersion{}, newNotProvidedError(pluginObject, id)
	}
	return p, version, nil
}

func newNotProvidedError(pluginObject string, id pluginclient.ActionID) error {
	return fmt.Errorf("the plugin %q does not provide %s: %w", pluginObject, id, pluginclient.ErrNoSuchAction)
}
