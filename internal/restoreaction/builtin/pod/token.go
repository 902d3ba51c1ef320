// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"iter"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/secret"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// tokenMountPath is where admission mounts the token of the ServiceAccount.
const tokenMountPath = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path, not a credential

// removeTokenVolume removes the volume that admission added for the token of the
// ServiceAccount, and its mounts.
func removeTokenVolume(spec map[string]any) {
	if mount, ok := spec["automountServiceAccountToken"].(bool); ok && !mount {
		return // the author of the Pod created this volume
	}
	account := field.Get[string](spec, "serviceAccountName")
	injected := map[string]bool{}
	for volume := range field.EachMap(spec, "volumes") {
		if isTokenVolume(volume, account) {
			injected[field.Get[string](volume, "name")] = true
		}
	}
	for container := range allContainers(spec) {
		for mount := range field.EachMap(container, "volumeMounts") {
			if field.Get[string](mount, "mountPath") != tokenMountPath {
				delete(injected, field.Get[string](mount, "name"))
			}
		}
	}
	isInjected := func(entry any) bool {
		fields, _ := entry.(map[string]any)
		return injected[field.Get[string](fields, "name")]
	}
	field.RemoveEntries(spec, isInjected, "volumes")
	for container := range allContainers(spec) {
		field.RemoveEntries(container, isInjected, "volumeMounts")
	}
}

// isTokenVolume reports whether a volume has a name that only admission assigns, and
// contains the token: projected, or the generated Secret of clusters before 1.22.
func isTokenVolume(volume map[string]any, account string) bool {
	name := field.Get[string](volume, "name")
	if secret.IsGeneratedToken(account, name) {
		return field.Get[string](volume, "secret", "secretName") == name
	}
	if !strings.HasPrefix(name, "kube-api-access-") {
		return false
	}
	for source := range field.EachMap(volume, "projected", "sources") {
		if field.Has(source, "serviceAccountToken") {
			return true
		}
	}
	return false
}

// allContainers iterates over all containers that a new Pod may have.
func allContainers(spec map[string]any) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, key := range []string{"initContainers", "containers"} {
			for container := range field.EachMap(spec, key) {
				if !yield(container) {
					return
				}
			}
		}
	}
}
