// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// subject is what the actions need to know of the Backup or Restore they run for.
type subject struct {
	// kind is "backup" or "restore".
	kind, name, uid, phase string
	// namespaces are those of the application now, "*" if it may be in any.
	namespaces string
}

// subjectOf returns what a request is about: exactly one of the two objects is set.
func subjectOf(req *hook.Request) subject {
	if b := req.Backup; b.Raw != nil {
		return subject{kind: "backup", name: b.Name, uid: b.UID, phase: b.Phase, namespaces: list(b.IncludedNamespaces)}
	}
	r := req.Restore
	var targets []string
	for _, name := range r.IncludedNamespaces {
		if target := r.NamespaceMapping[name]; target != "" {
			name = target
		}
		targets = append(targets, name)
	}
	return subject{kind: "restore", name: r.Name, uid: r.UID, phase: r.Phase, namespaces: list(targets)}
}

func list(namespaces []string) string {
	if len(namespaces) == 0 {
		return "*"
	}
	return strings.Join(namespaces, ",")
}
