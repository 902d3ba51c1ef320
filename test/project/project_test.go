// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	projectyaml "sigs.k8s.io/kubebuilder/v4/pkg/config/store/yaml"
	_ "sigs.k8s.io/kubebuilder/v4/pkg/config/v3" // registers the version of PROJECT
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// crd is what a generated CustomResourceDefinition says of its kind.
type crd struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Scope    string `json:"scope"`
		Versions []struct {
			Name string `json:"name"`
		} `json:"versions"`
	} `json:"spec"`
}

func loadProject(t *testing.T) config.Config {
	t.Helper()
	store := projectyaml.New(machinery.Filesystem{FS: afero.NewBasePathFs(afero.NewReadOnlyFs(afero.NewOsFs()), root)})
	if err := store.Load(); err != nil {
		t.Fatalf("kubebuilder does not read PROJECT: %v", err)
	}
	return store.Config()
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// listKinds reads the kinds from the manifests that controller-gen generates from api/.
func listKinds(t *testing.T) map[string]crd {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d manifests: %v", len(files), err)
	}
	kinds := map[string]crd{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var definition crd
		if err := yaml.Unmarshal(content, &definition); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		kinds[definition.Spec.Names.Kind] = definition
	}
	return kinds
}

// TestProject_WrittenByKubebuilder: a kubebuilder command that saves PROJECT changes nothing else in it.
func TestProject_WrittenByKubebuilder(t *testing.T) {
	written, err := loadProject(t).MarshalYAML()
	if err != nil {
		t.Fatal(err)
	}
	var body []string
	for line := range strings.Lines(readFile(t, "PROJECT")) {
		if !strings.HasPrefix(line, "#") {
			body = append(body, line)
		}
	}
	if got := strings.Join(body, ""); got != string(written) {
		t.Errorf("kubebuilder writes another PROJECT:\n%s", written)
	}
}

// TestProject_CLIVersion: PROJECT is tested with the version of kubebuilder that it names.
func TestProject_CLIVersion(t *testing.T) {
	required := regexp.MustCompile(`(?m)^\s*sigs\.k8s\.io/kubebuilder/v4 v(\S+)`).FindStringSubmatch(readFile(t, "test/project/go.mod"))
	if required == nil {
		t.Fatal("go.mod does not require kubebuilder")
	}
	if got := loadProject(t).GetCliVersion(); got != required[1] {
		t.Errorf("cliVersion is %q, the tests use %q", got, required[1])
	}
}

// TestProject_Resources: PROJECT lists the kinds of api/, each with its scope and its controller.
func TestProject_Resources(t *testing.T) {
	kinds := listKinds(t)
	resources, err := loadProject(t).GetResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		definition, ok := kinds[r.Kind]
		if !ok {
			t.Errorf("api/ has no kind %s", r.Kind)
			continue
		}
		delete(kinds, r.Kind)
		if err := r.Validate(); err != nil {
			t.Errorf("%s: %v", r.Kind, err)
		}
		if group := r.QualifiedGroup(); group != definition.Spec.Group {
			t.Errorf("%s is in group %s, want %s", r.Kind, group, definition.Spec.Group)
		}
		if len(definition.Spec.Versions) != 1 || r.Version != definition.Spec.Versions[0].Name {
			t.Errorf("%s has version %s, want %v", r.Kind, r.Version, definition.Spec.Versions)
		}
		if r.API == nil || r.API.Namespaced != (definition.Spec.Scope == "Namespaced") {
			t.Errorf("%s is not %s", r.Kind, definition.Spec.Scope)
		}
		if _, err := os.Stat(filepath.Join(root, controllerDirectory(r.Kind), "controller.go")); err != nil || !r.Controller {
			t.Errorf("%s: controller is %t: %v", r.Kind, r.Controller, err)
		}
	}
	for kind := range kinds {
		t.Errorf("PROJECT does not list kind %s", kind)
	}
}

// controllerDirectory returns where the controller of a kind is.
func controllerDirectory(kind string) string {
	name := strings.ToLower(kind)
	if kind == "BackupStorageLocation" {
		name = "storagelocation"
	}
	return filepath.Join("controllers", name)
}
