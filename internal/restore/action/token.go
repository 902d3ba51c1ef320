// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"iter"
	"strings"
)

// tokenMountPath is where admission mounts the token of the ServiceAccount.
const tokenMountPath = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path, not a credential

// removeTokenVolume removes the volume that admission added for the token of the
// ServiceAccount, and its mounts.
func removeTokenVolume(spec map[string]any) {
	if mount, ok := spec["automountServiceAccountToken"].(bool); ok && !mount {
		return // the author of the Pod created this volume
	}
	account := Get[string](spec, "serviceAccountName")
	injected := map[string]bool{}
	for volume := range EachMap(spec, "volumes") {
		if isTokenVolume(volume, account) {
			injected[Get[string](volume, "name")] = true
		}
	}
	for container := range allContainers(spec) {
		for mount := range EachMap(container, "volumeMounts") {
			if Get[string](mount, "mountPath") != tokenMountPath {
				delete(injected, Get[string](mount, "name"))
			}
		}
	}
	isInjected := func(entry any) bool {
		fields, _ := entry.(map[string]any)
		return injected[Get[string](fields, "name")]
	}
	RemoveEntries(spec, isInjected, "volumes")
	for container := range allContainers(spec) {
		RemoveEntries(container, isInjected, "volumeMounts")
	}
}

// isTokenVolume reports whether a volume has a name that only admission assigns, and
// contains the token: projected, or the generated Secret of clusters before 1.22.
func isTokenVolume(volume map[string]any, account string) bool {
	name := Get[string](volume, "name")
	if IsGeneratedToken(account, name) {
		return Get[string](volume, "secret", "secretName") == name
	}
	if !strings.HasPrefix(name, "kube-api-access-") {
		return false
	}
	for source := range EachMap(volume, "projected", "sources") {
		if Has(source, "serviceAccountToken") {
			return true
		}
	}
	return false
}

// allContainers iterates over all containers that a new Pod may have.
func allContainers(spec map[string]any) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, key := range []string{"initContainers", "containers"} {
			for container := range EachMap(spec, key) {
				if !yield(container) {
					return
				}
			}
		}
	}
}
