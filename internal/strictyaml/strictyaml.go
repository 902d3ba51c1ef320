// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package strictyaml reads YAML that other people write.
package strictyaml

import (
	"bytes"
	"fmt"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// ToJSON converts a YAML document to JSON. It rejects duplicate fields, and aliases: the parser
// limits how many values they expand to, but not how many bytes, so 1 MiB can become many GiB.
func ToJSON(document []byte) ([]byte, error) {
	if bytes.IndexByte(document, '&') >= 0 { // an alias without an anchor is an error anyway
		var root yamlv3.Node // decoding into a Node expands nothing
		if err := yamlv3.Unmarshal(document, &root); err != nil {
			return nil, err
		}
		if alias := findAlias(&root); alias != nil {
			return nil, fmt.Errorf("yaml: line %d: the alias *%s is not supported; repeat the value of its anchor", alias.Line, alias.Value)
		}
	}
	return yaml.YAMLToJSONStrict(document)
}

func findAlias(node *yamlv3.Node) *yamlv3.Node {
	if node.Kind == yamlv3.AliasNode {
		return node
	}
	for _, child := range node.Content {
		if alias := findAlias(child); alias != nil {
			return alias
		}
	}
	return nil
}
