// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestLocationsHaveTheirOwnDirectories checks the locations on a volume that users copy: one in
// the directory of another would make that one Unavailable.
func TestLocationsHaveTheirOwnDirectories(t *testing.T) {
	manifests := map[string][]string{}
	for path, text := range documents(t) {
		manifests[path] = blocks(text, "yaml")
	}
	for _, path := range []string{"../config/samples/backupstoragelocation_filesystem.yaml", "../hack/quickstart/backup.yaml"} {
		sample, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		manifests[path] = []string{string(sample)}
	}
	directories := map[string]string{}
	for path, texts := range manifests {
		for _, text := range texts {
			for _, object := range objectsOf(t, text) {
				filesystem, found, _ := unstructured.NestedMap(object.Object, "spec", "filesystem")
				if object.GetKind() != "BackupStorageLocation" || !found {
					continue
				}
				directory, _ := filesystem["path"].(string)
				if directory == "" {
					t.Errorf("%s: location %s has the whole volume", path, object.GetName())
				}
				directories[object.GetName()] = directory + "/"
			}
		}
	}
	for outer, directory := range directories {
		for inner, within := range directories {
			if outer != inner && strings.HasPrefix(within, directory) {
				t.Errorf("location %s lies in the directory of %s", inner, outer)
			}
		}
	}
	if len(directories) < 2 {
		t.Errorf("found only the locations %v", directories)
	}
}
