// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// expectedDifferences are the differences between an object and the restored one that are
// intended: KIND OPERATION PATH VALUE, as in JSON Patch. Anything else is a defect.
func expectedDifferences(restoreUID string) []*regexp.Regexp {
	patterns := []string{
		`\S+ replace /metadata/(uid|resourceVersion|creationTimestamp|generation) `, // it is a new object
		`\S+ \S+ /metadata/managedFields[/ ]`,                                       // other programs wrote it
		`\S+ \S+ /status[/ ]`,                                                       // controllers report its state
		`\S+ remove /metadata/generateName `,                                        // the name is known
		`\S+ add /metadata/labels/grapnel.dev~1backup-name ` + backupName + `$`,
		`\S+ add /metadata/labels/grapnel.dev~1restore-name ` + restoreName + `$`,
		`\S+ add /metadata/annotations/grapnel.dev~1restored created ` + restoreUID + ` `,
		`Service \S+ /spec/clusterIPs?[/ ]`,         // the API server allocates an address
		`Service replace /spec/ports/\d+/nodePort `, // the manifest sets no port, so the API server allocates one
		`EndpointSlice replace /metadata/name `,     // its controller created it again, with a random name
		`Endpoint(s|Slice) replace /metadata/annotations/endpoints.kubernetes.io~1last-change-trigger-time `,
	}
	expected := make([]*regexp.Regexp, 0, len(patterns))
	for _, pattern := range patterns {
		expected = append(expected, regexp.MustCompile("^"+pattern))
	}
	return expected
}

// compareObjects compares every object of the application with its original, field by field.
func (d *demo) compareObjects(restoreUID string) error {
	before, err := d.readObjects("before.json", map[string]string{dataNamespace: mappedNamespace})
	if err != nil {
		return err
	}
	after, err := d.readObjects("after.json", nil)
	if err != nil {
		return err
	}
	return findUnexpectedDifferences(before, after, restoreUID)
}

func findUnexpectedDifferences(before, after map[string]*unstructured.Unstructured, restoreUID string) error {
	expected := expectedDifferences(restoreUID)
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if after[key] == nil {
			errs = append(errs, fmt.Errorf("%s is missing", key))
			continue
		}
		differences, err := diffObjects(before[key], after[key])
		if err != nil {
			return err
		}
		for _, difference := range differences {
			if !slices.ContainsFunc(expected, func(pattern *regexp.Regexp) bool { return pattern.MatchString(difference) }) {
				errs = append(errs, fmt.Errorf("%s: %s", key, difference))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if before[key] == nil {
			errs = append(errs, fmt.Errorf("%s was not there before", key))
		}
	}
	return errors.Join(append(errs, checkTrue(len(before) > 0, "there is nothing to compare"))...)
}

// diffObjects returns the differences of two objects as KIND OPERATION PATH VALUE.
func diffObjects(before, after *unstructured.Unstructured) ([]string, error) {
	beforeJSON, err := before.MarshalJSON()
	if err != nil {
		return nil, err
	}
	afterJSON, err := after.MarshalJSON()
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.CreatePatch(beforeJSON, afterJSON)
	if err != nil {
		return nil, err
	}
	differences := make([]string, 0, len(patch))
	for _, operation := range patch {
		differences = append(differences, fmt.Sprintf("%s %s %s %v", before.GetKind(), operation.Operation, operation.Path, operation.Value))
	}
	return differences, nil
}

// readObjects reads a file of saveObjects and returns the objects of the application by their key,
// with namespaces mapped, and owners by key, because each restored object has another UID.
func (d *demo) readObjects(file string, namespaceMapping map[string]string) (map[string]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(filepath.Join(d.dir, file))
	if err != nil {
		return nil, err
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", file, err)
	}
	objects := map[string]*unstructured.Unstructured{}
	for _, item := range list.Items {
		object, err := decodeObject(item)
		if err != nil {
			return nil, fmt.Errorf("decoding %s: %w", file, err)
		}
		if !isOfApplication(object) {
			continue
		}
		mapNamespace(object, namespaceMapping)
		objects[objectKey(object)] = object
	}
	for _, object := range objects {
		owners := object.GetOwnerReferences()
		for i := range owners {
			owners[i].UID = "" // an owner is known by its kind and name
		}
		object.SetOwnerReferences(owners)
	}
	return objects, nil
}

// decodeObject decodes an object, and gives it labels and annotations so that each of them is a
// difference of its own.
func decodeObject(text []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, found, _ := unstructured.NestedMap(object.Object, "metadata", field); !found {
			if err := unstructured.SetNestedMap(object.Object, map[string]any{}, "metadata", field); err != nil {
				return nil, err
			}
		}
	}
	return object, nil
}

// isOfApplication reports whether an object is in a namespace of the application, or is such a
// namespace, or the definition of its custom resource.
func isOfApplication(object *unstructured.Unstructured) bool {
	name := object.GetNamespace()
	if object.GetKind() == "Namespace" {
		name = object.GetName()
	}
	return strings.HasPrefix(name, "shop-") || object.GetName() == "databases.shop.example"
}

// objectKey identifies an object. The name of an EndpointSlice is random, so that of its Service
// stands for it.
func objectKey(object *unstructured.Unstructured) string {
	name := object.GetName()
	if object.GetKind() == "EndpointSlice" {
		name = object.GetLabels()["kubernetes.io/service-name"]
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + name
}

func mapNamespace(object *unstructured.Unstructured, mapping map[string]string) {
	if to, found := mapping[object.GetNamespace()]; found {
		object.SetNamespace(to)
	}
	if to, found := mapping[object.GetName()]; found && object.GetKind() == "Namespace" {
		object.SetName(to)
		labels := object.GetLabels()
		labels["kubernetes.io/metadata.name"] = to
		object.SetLabels(labels)
	}
}
