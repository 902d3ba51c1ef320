// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// sampleItemBackup and sampleItemRestore have the form in which actions on items get
// the Backup and the Restore: that of velero.io/v1.
const (
	sampleItemBackup = `{"apiVersion":"velero.io/v1","kind":"Backup",
	"metadata":{"name":"nightly","namespace":"grapnel-system","uid":"4d7c7e3e-0000-4000-8000-000000000001"},
	"spec":{"includedNamespaces":["shop"],"storageLocation":"default"},"status":{"phase":"InProgress"}}`
	sampleItemRestore = `{"apiVersion":"velero.io/v1","kind":"Restore",
	"metadata":{"name":"nightly-again","namespace":"grapnel-system","uid":"4d7c7e3e-0000-4000-8000-000000000002"},
	"spec":{"backupName":"nightly","includedNamespaces":["shop"],"namespaceMapping":{"shop":"shop-restored"}},
	"status":{"phase":"InProgress"}}`
)

// sampleSpec is an object that actions are called for.
type sampleSpec struct {
	// resources are the names by which a selector may select it.
	resources []string
	json      string
}

func newSampleSpecs() []sampleSpec {
	return []sampleSpec{
		{
			resources: []string{"pods", "pod", "po"},
			json: `{"apiVersion":"v1","kind":"Pod",
			"metadata":{"name":"web-0","namespace":"shop","uid":"4d7c7e3e-0000-4000-8000-00000000000a","labels":{"app":"shop"}},
			"spec":{"containers":[{"name":"web","image":"registry.example.com/shop/web:1.2.3","ports":[{"containerPort":8080}],
			"volumeMounts":[{"name":"data","mountPath":"/data"}]}],
			"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-web-0"}}]},"status":{"phase":"Running"}}`,
		},
		{
			resources: []string{"persistentvolumeclaims", "persistentvolumeclaim", "pvc"},
			json: `{"apiVersion":"v1","kind":"PersistentVolumeClaim",
			"metadata":{"name":"data-web-0","namespace":"shop","uid":"4d7c7e3e-0000-4000-8000-00000000000b","labels":{"app":"shop"}},
			"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"standard",
			"volumeName":"pvc-4d7c7e3e"},"status":{"phase":"Bound"}}`,
		},
		{
			resources: []string{"configmaps", "configmap", "cm"},
			json: `{"apiVersion":"v1","kind":"ConfigMap",
			"metadata":{"name":"settings","namespace":"shop","uid":"4d7c7e3e-0000-4000-8000-00000000000c","labels":{"app":"shop"}},
			"data":{"colour":"blue"}}`,
		},
	}
}

// SampleObjects returns new copies of the objects that CheckContract passes to actions
// unless Contract.Objects returns others: a Pod, the PersistentVolumeClaim that it mounts,
// and a ConfigMap, all in the namespace "shop".
func SampleObjects() []*unstructured.Unstructured {
	return samplesMatching(item.Selector{})
}

// samplesMatching returns the samples that a selector selects.
func samplesMatching(selector item.Selector) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, s := range newSampleSpecs() {
		object := mustParse(wire.ObjectFrom([]byte(s.json)))
		if s.matchesSelector(selector, object) {
			objects = append(objects, object)
		}
	}
	return objects
}

// matchesSelector knows fewer resources than a cluster. It does not select unknown
// resources, and the check asks the author for an object.
func (s sampleSpec) matchesSelector(selector item.Selector, object *unstructured.Unstructured) bool {
	matches, err := labels.Parse(selector.LabelSelector)
	if err != nil || !matches.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	namespace := []string{object.GetNamespace()}
	return matchesAnyName(selector.IncludedResources, s.resources, true) && !matchesAnyName(selector.ExcludedResources, s.resources, false) &&
		matchesAnyName(selector.IncludedNamespaces, namespace, true) && !matchesAnyName(selector.ExcludedNamespaces, namespace, false)
}

// matchesAnyName reports whether one of the names is in a list; empty is the result for an
// empty list. Entries may have wildcards.
func matchesAnyName(list, names []string, empty bool) bool {
	if len(list) == 0 {
		return empty
	}
	return slices.ContainsFunc(list, func(entry string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			matches, err := path.Match(strings.ToLower(entry), name)
			return err == nil && matches
		})
	})
}
