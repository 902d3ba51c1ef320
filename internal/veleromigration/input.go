// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package veleromigration

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/strictyaml"
)

const (
	// MaxInputBytes is the size limit of a file.
	MaxInputBytes = 64 << 20
	// MaxObjects is the limit of the number of objects.
	MaxObjects = 20000
)

// Input is an object to convert.
type Input struct {
	// Source says where the object was read, for example "backups.yaml, document 2".
	Source string
	Object *unstructured.Unstructured
}

// ReadFile reads the objects of a file of YAML or JSON documents. Lists are replaced by their items. An error names
// the file and the document.
func ReadFile(name string, file io.Reader) ([]Input, error) {
	content, err := io.ReadAll(io.LimitReader(file, MaxInputBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(content) > MaxInputBytes {
		return nil, fmt.Errorf("%s has more than %d MiB; split it", name, MaxInputBytes>>20)
	}
	var inputs []Input
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return inputs, nil
		}
		source := fmt.Sprintf("%s, document %d", name, number)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		converted, err := strictyaml.ToJSON(document)
		var object map[string]any
		if err == nil {
			err = utiljson.Unmarshal(converted, &object)
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not an object: %s", source, executor.OneLine(err.Error()))
		}
		if len(object) == 0 {
			continue
		}
		if inputs, err = appendInputs(inputs, source, object); err != nil {
			return nil, err
		}
	}
}

// appendInputs appends an object, or the items of a list.
func appendInputs(inputs []Input, source string, object map[string]any) ([]Input, error) {
	kind, _ := object["kind"].(string)
	items, isList := object["items"].([]any)
	if !isList || !strings.HasSuffix(kind, "List") {
		if len(inputs) >= MaxObjects {
			return nil, fmt.Errorf("%s: there are more than %d objects", source, MaxObjects)
		}
		o := &unstructured.Unstructured{Object: object}
		if err := checkIdentity(o); err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		return append(inputs, Input{Source: source, Object: o}), nil
	}
	for i, item := range items {
		itemSource := fmt.Sprintf("%s, item %d", source, i+1)
		content, isObject := item.(map[string]any)
		if nested, _ := content["kind"].(string); !isObject || strings.HasSuffix(nested, "List") {
			return nil, fmt.Errorf("%s is not an object", itemSource)
		}
		for field, value := range map[string]any{"apiVersion": object["apiVersion"], "kind": strings.TrimSuffix(kind, "List")} {
			if content[field] == nil && kind != "List" { // the API server omits them in lists of one kind
				content[field] = value
			}
		}
		var err error
		if inputs, err = appendInputs(inputs, itemSource, content); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// checkIdentity checks that an object has a kind, and names that are valid and can be printed.
func checkIdentity(object *unstructured.Unstructured) error {
	for _, field := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
		value, _, err := unstructured.NestedString(object.Object, field...)
		if err != nil || value == "" {
			return fmt.Errorf("%s is missing or not a string", strings.Join(field, "."))
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(object.Object, "metadata", field); err != nil {
			return fmt.Errorf("metadata.%s has a value that is not a string", field)
		}
	}
	if kind := object.GetKind(); len(validation.IsDNS1035Label(strings.ToLower(kind))) > 0 {
		return fmt.Errorf("kind %.80q is not a valid kind", kind)
	}
	if _, _, err := unstructured.NestedString(object.Object, "metadata", "namespace"); err != nil {
		return errors.New("metadata.namespace is not a string")
	}
	if name := object.GetName(); len(validation.IsDNS1123Subdomain(name)) > 0 && isConverted(object) {
		return fmt.Errorf("metadata.name %.300q is not a valid name", name)
	}
	if namespace := object.GetNamespace(); namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		return fmt.Errorf("metadata.namespace %.100q is not a valid name", namespace)
	}
	return nil
}
