// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// TestInstallations compares the objects of both ways to describe the same installation.
func TestInstallations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Errorf("found only %d installations", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			values, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			rendered, err := renderChart(t, loadChart(t), string(values), servedKinds)
			if err != nil {
				t.Fatal(err)
			}
			if len(rendered.Hooks) > 0 {
				t.Errorf("it has hooks: %v", rendered.Hooks)
			}
			got, want := indexObjects(t, rendered.Manifest), indexObjects(t, buildKustomization(t, filepath.Dir(file)))
			for _, object := range got {
				allowDifferences(object)
			}
			for key, object := range got {
				switch wanted := want[key]; {
				case wanted == nil:
					t.Errorf("only the chart has %s", key)
				default:
					if difference := cmp.Diff(wanted.Object, object.Object); difference != "" {
						t.Errorf("%s differs, - is the kustomization, + the chart:\n%s", key, difference)
					}
				}
			}
			for key := range want {
				if got[key] == nil {
					t.Errorf("the chart lacks %s", key)
				}
			}
		})
	}
}

// allowDifferences removes what only Helm needs in an object of the chart: the annotation that keeps it when
// the release is uninstalled.
func allowDifferences(object *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	delete(annotations, kube.ResourcePolicyAnno)
	if len(annotations) == 0 {
		annotations = nil
	}
	object.SetAnnotations(annotations)
}

func buildKustomization(t *testing.T, dir string) string {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(manifests)
}

// indexObjects returns objects by kind and name. None may appear twice.
func indexObjects(t *testing.T, manifests string) map[string]*unstructured.Unstructured {
	t.Helper()
	index := map[string]*unstructured.Unstructured{}
	for _, object := range decodeObjects(t, manifests) {
		key := fmt.Sprintf("%s %s/%s", object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName())
		if index[key] != nil {
			t.Errorf("%s appears twice", key)
		}
		index[key] = object
	}
	return index
}
