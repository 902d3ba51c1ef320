// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

func readCRD(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("config", "crd", "bases", "grapnel.dev_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}

// TestListMissingFields removes fields from the CRD of Backups, each at another place of the schema.
func TestListMissingFields(t *testing.T) {
	t.Parallel()
	type schema = *apiextensionsv1.JSONSchemaProps
	// property returns the schema of the items or values, if the property has any.
	property := func(s schema, names ...string) schema {
		for _, name := range names {
			child, ok := s.Properties[name]
			if !ok {
				t.Fatalf("the CRD has no %s of %v", name, names)
			}
			s = &child
			if child.Items != nil {
				s = child.Items.Schema
			}
		}
		return s
	}
	for name, c := range map[string]struct {
		change func(crd *apiextensionsv1.CustomResourceDefinition, root schema)
		want   []string
	}{
		"none": {change: func(*apiextensionsv1.CustomResourceDefinition, schema) {}},
		"of the spec": {
			change: func(_ *apiextensionsv1.CustomResourceDefinition, root schema) {
				delete(property(root, "spec").Properties, "ttl")
			},
			want: []string{".spec.ttl"},
		},
		"of the inline part of the status": {
			change: func(_ *apiextensionsv1.CustomResourceDefinition, root schema) {
				delete(property(root, "status").Properties, "phase")
			},
			want: []string{".status.phase"},
		},
		"of items": {
			change: func(_ *apiextensionsv1.CustomResourceDefinition, root schema) {
				delete(property(root, "spec", "orLabelSelectors").Properties, "matchLabels")
			},
			want: []string{".spec.orLabelSelectors.matchLabels"},
		},
		"newer": {change: func(_ *apiextensionsv1.CustomResourceDefinition, root schema) {
			property(root, "spec").Properties["new"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}},
		"another version": {
			change: func(crd *apiextensionsv1.CustomResourceDefinition, _ schema) { crd.Spec.Versions[0].Name = "v1alpha0" },
			want:   []string{"version v1alpha1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			crd := readCRD(t, "backups")
			c.change(crd, crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
			if got := listMissingFields(&v1alpha1.Backup{}, crd); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
