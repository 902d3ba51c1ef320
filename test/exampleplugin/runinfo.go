// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// runInfo is what the actions need to know of the Backup or Restore they run for.
type runInfo struct {
	// kind is "backup" or "restore".
	kind, name, uid, phase string
	// namespaces are those of the application now, "*" if it may be in any.
	namespaces string
}

// runInfoFromRequest returns what a request is about: exactly one of the two objects is set.
func runInfoFromRequest(req *hook.Request) runInfo {
	if b := req.Backup; b.Raw != nil {
		return runInfo{kind: "backup", name: b.Name, uid: b.UID, phase: b.Phase, namespaces: joinNamespaces(b.IncludedNamespaces)}
	}
	r := req.Restore
	var targets []string
	for _, name := range r.IncludedNamespaces {
		if target := r.NamespaceMapping[name]; target != "" {
			name = target
		}
		targets = append(targets, name)
	}
	return runInfo{kind: "restore", name: r.Name, uid: r.UID, phase: r.Phase, namespaces: joinNamespaces(targets)}
}

func joinNamespaces(namespaces []string) string {
	if len(namespaces) == 0 {
		return "*"
	}
	return strings.Join(namespaces, ",")
}
