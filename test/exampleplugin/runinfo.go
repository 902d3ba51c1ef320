// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// runInfo has the fields that the actions need of the Backup or Restore that they run for.
type runInfo struct {
	// kind is "backup" or "restore".
	kind, name, uid, phase string
	// namespaces are the current namespaces of the application, "*" if it may be in any.
	namespaces string
}

// runInfoFromRequest returns the runInfo of a request, in which exactly one of the two
// objects is set.
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
