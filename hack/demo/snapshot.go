// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// identity is what an object is called, in one cluster at one time.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

func (i identity) String() string {
	if i.namespace == "" {
		return i.kind.Kind + " " + i.name
	}
	return i.kind.Kind + " " + i.namespace + "/" + i.name
}

// snapshot has the objects of an application.
type snapshot map[identity]*unstructured.Unstructured

// readSnapshot reads what `kubectl get -o json` has written, and keeps the objects
// of some namespaces, the namespaces themselves, and the custom resource definition
// of the application.
func readSnapshot(file string, namespaces map[string]bool) (snapshot, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []*unstructured.Unstructured `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", file, err)
	}
	s := snapshot{}
	for _, object := range list.Items {
		id := identify(object)
		switch {
		case namespaces[id.namespace], id.kind.Kind == "Namespace" && namespaces[id.name], id.name == databaseCRD:
		default:
			continue
		}
		if twin, found := s[id]; found {
			return nil, fmt.Errorf("%s has both %s and %s, which cannot be told apart", file, twin.GetName(), object.GetName())
		}
		s[id] = object
	}
	return s, nil
}

// identify returns what an object is called. An EndpointSlice has a random name, and
// is called as the Service that it is made for.
func identify(object *unstructured.Unstructured) identity {
	id := identity{kind: object.GroupVersionKind().GroupKind(), namespace: object.GetNamespace(), name: object.GetName()}
	if isSlice(id) {
		id.name = cmp.Or(object.GetLabels()["kubernetes.io/service-name"], id.name)
	}
	return id
}

func isSlice(id identity) bool {
	return id.kind == schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}
}

// withUID returns what the object with that UID is called.
func (s snapshot) withUID(uid string) (identity, bool) {
	for id, object := range s {
		if string(object.GetUID()) == uid {
			return id, true
		}
	}
	return identity{}, false
}
