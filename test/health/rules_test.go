// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const config = "../../config"

// statusSchemas returns the schema of the status of every kind, from its CRD.
func statusSchemas(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(config + "/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no CRDs: %v", err)
	}
	found := map[string]map[string]any{}
	for _, file := range files {
		var crd map[string]any
		parse(t, read(t, file), &crd)
		kind, _, err := unstructured.NestedString(crd, "spec", "names", "kind")
		if err != nil || kind == "" {
			t.Fatalf("%s names no kind: %v", file, err)
		}
		versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
		if err != nil || len(versions) != 1 {
			t.Fatalf("%s has %d versions, this test knows one: %v", file, len(versions), err)
		}
		schema, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status")
		if err != nil {
			t.Fatal(err)
		}
		found[kind] = schema
	}
	return found
}

// phases returns the phases of every kind, as its CRD lists them; none for a kind that has
// no phase.
func phases(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for kind, schema := range statusSchemas(t) {
		list, _, err := unstructured.NestedStringSlice(schema, "properties", "phase", "enum")
		if err != nil {
			t.Fatal(err)
		}
		found[kind] = list
	}
	return found
}

// scripts returns the health check of each kind, as it gets into the settings of Argo CD.
func scripts(t *testing.T) map[string]string { return argoSettings(t, "health") }

// argoSettings returns the settings of Argo CD of one sort, health or actions, for each kind that has them.
func argoSettings(t *testing.T, sort string) map[string]string {
	t.Helper()
	settings := build(t, filesys.MakeFsOnDisk(), config+"/health/argocd")
	if settings.GetKind() != "ConfigMap" || settings.GetName() != "argocd-cm" || settings.GetNamespace() != "argocd" {
		t.Fatalf("it makes %s %s/%s, Argo CD reads ConfigMap argocd/argocd-cm", settings.GetKind(), settings.GetNamespace(), settings.GetName())
	}
	data, _, err := unstructured.NestedStringMap(settings.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]string{}
	for key, value := range data {
		of, kind, is := strings.Cut(strings.TrimPrefix(key, "resource.customizations."), ".grapnel.dev_")
		if !is || of != "health" && of != "actions" {
			t.Errorf("the setting %s is none of ours", key)
		}
		if of == sort {
			byKind[kind] = value
		}
	}
	return byKind
}

// fluxRules returns the expressions for each kind, as they get into a Kustomization of Flux.
func fluxRules(t *testing.T) map[string]expressions {
	t.Helper()
	files := inMemory(t, map[string]string{
		"flux.yaml": `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {name: backups}, spec: {prune: true}}`,
		"kustomization.yaml": `
resources: [flux.yaml]
patches:
  - path: health.yaml
    target: {group: kustomize.toolkit.fluxcd.io, kind: Kustomization, name: backups}
`,
		"health.yaml": read(t, config+"/health/flux/health.yaml"),
	})
	var patched struct {
		Spec struct {
			Prune            bool          `json:"prune"`
			HealthCheckExprs []expressions `json:"healthCheckExprs"`
		} `json:"spec"`
	}
	text, err := build(t, files, ".").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	parse(t, string(text), &patched)
	if !patched.Spec.Prune {
		t.Error("the patch changes more than the expressions")
	}
	byKind := map[string]expressions{}
	for _, entry := range patched.Spec.HealthCheckExprs {
		if entry.APIVersion != "grapnel.dev/v1alpha1" {
			t.Errorf("the entry for %s is for %s", entry.Kind, entry.APIVersion)
		}
		byKind[entry.Kind] = entry
	}
	return byKind
}

// build has kustomize build a directory that makes one object.
func build(t *testing.T, files filesys.FileSystem, directory string) *unstructured.Unstructured {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, directory)
	if err != nil {
		t.Fatal(err)
	}
	if made.Size() != 1 {
		t.Fatalf("%s makes %d objects, want one", directory, made.Size())
	}
	object, err := made.Resources()[0].Map()
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

func inMemory(t *testing.T, content map[string]string) filesys.FileSystem {
	t.Helper()
	files := filesys.MakeFsInMemory()
	for name, text := range content {
		if err := files.WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestRules_MissingKinds compares what is shipped with what kinds there are.
func TestRules_MissingKinds(t *testing.T) {
	kinds, lua, cel := phases(t), scripts(t), fluxRules(t)
	for kind := range kinds {
		if lua[kind] == "" {
			t.Errorf("config/health/argocd has nothing for %s", kind)
		}
		if cel[kind].Current == "" {
			t.Errorf("config/health/flux has nothing for %s", kind)
		}
	}
	if len(lua) != len(kinds) || len(cel) != len(kinds) {
		t.Errorf("there are %d kinds, %d of them in the settings of Argo CD, and %d in the patch for Flux", len(kinds), len(lua), len(cel))
	}
}

// TestArgoCDSettings_Merge does what the comment in the kustomization tells those to do who
// install Argo CD with kustomize.
func TestArgoCDSettings_Merge(t *testing.T) {
	const generator = "  - name: argocd-cm\n"
	ours := read(t, config+"/health/argocd/kustomization.yaml")
	if strings.Count(ours, generator) != 1 {
		t.Fatalf("the kustomization has changed: it does not have %q once", generator)
	}
	files := inMemory(t, map[string]string{
		"argocd.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: argocd-cm, labels: {theirs: kept}}, data: {url: "https://argocd.example.com"}}`,
		"kustomization.yaml": strings.Replace(ours, generator, generator+"    behavior: merge\n", 1) +
			"resources: [argocd.yaml]\n",
		"health.lua":            read(t, config+"/health/argocd/health.lua"),
		"actions-run.yaml":      read(t, config+"/health/argocd/actions-run.yaml"),
		"actions-schedule.yaml": read(t, config+"/health/argocd/actions-schedule.yaml"),
	})
	merged := build(t, files, ".")
	data, _, err := unstructured.NestedStringMap(merged.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	if data["url"] == "" || merged.GetLabels()["theirs"] != "kept" || len(data) != len(phases(t))+len(argoSettings(t, "actions"))+1 {
		t.Errorf("the settings are %v with the labels %v", data, merged.GetLabels())
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%.80s: %v", text, err)
	}
}
