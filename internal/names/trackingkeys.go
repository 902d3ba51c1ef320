// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package names

import "strings"

// isWellKnownTrackingKey reports whether a key is a tracking key outside of the domains of tools.
func isWellKnownTrackingKey(key string) bool {
	switch key {
	case "app.kubernetes.io/instance", // Argo CD
		"app.kubernetes.io/managed-by",                     // Helm, Config Sync
		"kubectl.kubernetes.io/last-applied-configuration", // kubectl apply --prune
		"config.k8s.io/owning-inventory":                   // kpt, Config Sync
		return true
	}
	return false
}

// isToolDomain reports whether all keys of a domain belong to a tool.
func isToolDomain(domain string) bool {
	switch domain {
	case "argocd.argoproj.io",
		"fluxcd.io",               // Flux, and the domains below it
		"meta.helm.sh",            // Helm
		"kapp.k14s.io",            // kapp
		"applyset.kubernetes.io",  // kubectl apply --prune --applyset
		"cli-utils.sigs.k8s.io",   // kpt
		"configsync.gke.io",       // Config Sync
		"configmanagement.gke.io", // Config Sync, earlier
		"objectset.rio.cattle.io", // Rancher
		"fleet.cattle.io",         // Fleet
		"tanka.dev":               // Tanka
		return true
	}
	return false
}

// IsTrackingKey reports whether a tool may recognize its own objects by a label or annotation with
// this key. It may be called concurrently.
func IsTrackingKey(key string) bool {
	if isWellKnownTrackingKey(key) {
		return true
	}
	domain, _, qualified := strings.Cut(key, "/")
	for found := qualified; found; _, domain, found = strings.Cut(domain, ".") {
		if isToolDomain(domain) {
			return true
		}
	}
	return false
}

// WithoutTrackingKeys returns a copy of the labels or annotations without tracking keys; nil if
// none remain.
func WithoutTrackingKeys(all map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range all {
		if IsTrackingKey(key) {
			continue
		}
		if kept == nil {
			kept = make(map[string]string, len(all))
		}
		kept[key] = value
	}
	return kept
}
