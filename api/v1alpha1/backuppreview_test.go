// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestBackupPreviewAdmission(t *testing.T) {
	checkAdmission(t, "BackupPreview", map[string]admission{
		"of everything":     {},
		"of a selection":    {body: `{spec: {template: {metadata: {labels: {tier: gold}}, spec: {includedNamespaces: [shop]}}}}`},
		"of an import":      {body: `{spec: {template: {spec: {importedFrom: {storageLocation: main, backupName: b}}}}}`, rejected: "importedFrom cannot be set"},
		"of a canceled one": {body: `{spec: {template: {spec: {desiredState: Cancel}}}}`, rejected: "desiredState can only be Run"},
	})
}

func TestBackupPreviewChanges(t *testing.T) {
	body := `{spec: {template: {spec: {includedNamespaces: [shop]}}}}`
	checkChanges(t, "BackupPreview", func(*testing.T, *unstructured.Unstructured) {}, map[string]change{
		"another namespace": {body: body, patch: `{"spec":{"template":{"spec":{"includedNamespaces":["x"]}}}}`, rejected: "a BackupPreview cannot be changed; create another one"},
		"a label":           {body: body, patch: `{"metadata":{"labels":{"a":"b"}}}`},
	})
}
