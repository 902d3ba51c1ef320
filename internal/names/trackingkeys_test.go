// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package names_test

import (
	"maps"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/names"
)

func TestIsTrackingKey(t *testing.T) {
	for key, want := range map[string]bool{
		"app.kubernetes.io/instance":                       true,
		"app.kubernetes.io/managed-by":                     true,
		"argocd.argoproj.io/instance":                      true,
		"argocd.argoproj.io/tracking-id":                   true,
		"argocd.argoproj.io/hook":                          true,
		"kustomize.toolkit.fluxcd.io/name":                 true,
		"kustomize.toolkit.fluxcd.io/namespace":            true,
		"helm.toolkit.fluxcd.io/name":                      true,
		"fluxcd.io/sync-gc-mark":                           true,
		"meta.helm.sh/release-name":                        true,
		"kapp.k14s.io/app":                                 true,
		"objectset.rio.cattle.io/hash":                     true,
		"fleet.cattle.io/bundle-id":                        true,
		"applyset.kubernetes.io/part-of":                   true,
		"config.k8s.io/owning-inventory":                   true,
		"configsync.gke.io/resource-id":                    true,
		"configmanagement.gke.io/managed":                  true,
		"kubectl.kubernetes.io/last-applied-configuration": true,
		"tanka.dev/environment":                            true,

		"":                          false,
		"team":                      false,
		"fluxcd.io":                 false,
		"instance":                  false,
		"app.kubernetes.io/name":    false,
		"app.kubernetes.io/part-of": false,
		"kubernetes.io/instance":    false,
		"notfluxcd.io/name":         false,
		"fluxcd.io.example.com/x":   false,
		"example.com/fluxcd.io":     false,
		"grapnel.dev/schedule-name": false,
	} {
		if got := names.IsTrackingKey(key); got != want {
			t.Errorf("%q: want %t, got %t", key, want, got)
		}
	}
}

func TestWithoutTrackingKeys(t *testing.T) {
	all := map[string]string{"team": "red", "argocd.argoproj.io/instance": "backups", "app.kubernetes.io/instance": "backups"}
	before := maps.Clone(all)
	kept := names.WithoutTrackingKeys(all)
	if !maps.Equal(kept, map[string]string{"team": "red"}) {
		t.Errorf("kept %v", kept)
	}
	kept["team"] = "blue"
	if !maps.Equal(all, before) {
		t.Errorf("the argument became %v", all)
	}
	if kept := names.WithoutTrackingKeys(map[string]string{"kapp.k14s.io/app": "1"}); kept != nil {
		t.Errorf("want nil if none remain, got %v", kept)
	}
}
