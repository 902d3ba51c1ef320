// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fakeResolver maps the full names of the resources of a cluster to their scope.
type fakeResolver map[string]bool

var shortNames = map[string]string{"po": "pods", "pv": "persistentvolumes", "deploy": "deployments"}

func (r fakeResolver) Resolve(name string) (schema.GroupResource, bool) {
	name = strings.ToLower(name)
	if long, ok := shortNames[name]; ok {
		name = long
	}
	for full := range r {
		gr := schema.ParseGroupResource(full)
		if full == name || gr.Resource == name {
			return gr, true
		}
	}
	return schema.GroupResource{}, false
}

func (r fakeResolver) Scopes() map[schema.GroupResource]bool {
	scopes := map[schema.GroupResource]bool{}
	for full, namespaced := range r {
		scopes[schema.ParseGroupResource(full)] = namespaced
	}
	return scopes
}

var testCluster = fakeResolver{
	"pods":                   true,
	"secrets":                true,
	"persistentvolumeclaims": true,
	"deployments.apps":       true,
	"namespaces":             false,
	"persistentvolumes":      false,
	"nodes":                  false,
	"customresourcedefinitions.apiextensions.k8s.io":    false,
	"clusterroles.rbac.authorization.k8s.io":            false,
	"volumesnapshots.snapshot.storage.k8s.io":           true,
	"volumesnapshotcontents.snapshot.storage.k8s.io":    false,
	"volumegroupsnapshots.groupsnapshot.storage.k8s.io": true,
	"backups.velero.io":                                 true,
	"hookruns.grapnel.dev":                              true,
}
