// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

func TestValues_Refused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ values, want string }{
		"an unknown value":                  {values: "replicas: 2", want: "additional properties 'replicas' not allowed"},
		"an unknown value below another":    {values: "store: {kind: Volume}", want: "at '/store': additional properties 'kind' not allowed"},
		"an unknown type of store":          {values: "store: {type: NFS}", want: "at '/store/type': value must be one of 'Volume', 'SharedVolume', 'None'"},
		"a size that is no quantity":        {values: "store: {size: large}", want: "at '/store/size'"},
		"text for a switch":                 {values: "csi: {enabled: 'no'}", want: "at '/csi/enabled': got string, want boolean"},
		"a location without a spec":         {values: "locations: [{name: main}]", want: "at '/locations/0': missing property 'spec'"},
		"a plugin without an image":         {values: "plugins: {imageVolumes: [{name: x}]}", want: "at '/plugins/imageVolumes/0': missing property 'image'"},
		"a plugin with a name that is none": {values: "plugins: {imageVolumes: [{name: a/b, image: x}]}", want: "at '/plugins/imageVolumes/0/name'"},
		"a ttl that is no duration":         {values: "defaultBackupTTL: 30d", want: "at '/defaultBackupTTL'"},
		"a number for a ttl":                {values: "defaultBackupTTL: 0", want: "at '/defaultBackupTTL': got number, want string"},
		"an argument without dashes":        {values: "extraArgs: [zap-log-level=debug]", want: "at '/extraArgs/0'"},
		"two operators, and a volume of one node": {
			values: "highAvailability: {enabled: true}", want: "highAvailability.enabled needs a store that both operators can mount",
		},
		"traffic that is allowed where nothing is denied": {
			values: "network: {enabled: false, extraEgress: [{ports: [{port: 9000}]}]}", want: "network.extraEgress without network.enabled would close everything else",
		},
		"commands in pods, without the right to run them": {
			values: "veleroHooks: {enabled: true}", want: "veleroHooks.enabled runs commands in pods: set podExec.enabled to true, too",
		},
		"a directory without a store": {
			values: "store: {type: None}\nlocations: [{name: main, spec: {filesystem: {path: main}}}]", want: "the location main has the type filesystem, which needs a store",
		},
		"two default locations": {
			values: "locations: [{name: a, spec: {default: true, filesystem: {path: a}}}, {name: b, spec: {default: true, filesystem: {path: b}}}]",
			want:   "only one may have spec.default: true",
		},
	} {
		if _, err := renderChart(t, loadChart(t), test.values, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: want an error with %q, got: %v", name, test.want, err)
		}
	}
}

// TestValues_CRDs checks what keeps the Backups of a cluster when the release is uninstalled.
func TestValues_CRDs(t *testing.T) {
	t.Parallel()
	for values, want := range map[string][2]int{
		"{}":                     {10, 10},
		"crds: {keep: false}":    {10, 0},
		"crds: {enabled: false}": {0, 0},
	} {
		rendered, err := renderChart(t, loadChart(t), values, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got [2]int
		for _, object := range decodeObjects(t, rendered.Manifest) {
			if object.GetKind() != "CustomResourceDefinition" {
				continue
			}
			got[0]++
			if object.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
				got[1]++
			}
		}
		if got != want {
			t.Errorf("%s: %d CRDs, of which %d are kept, want %d", values, got[0], got[1], want)
		}
	}
}

// TestNotes checks that the commands of the notes fit the values.
func TestNotes(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]struct{ has, lacks string }{
		"{}":                         {has: "filesystem: {path: main}", lacks: "kubectl label namespace"},
		"store: {type: None}":        {has: "s3: {bucket:", lacks: "filesystem"},
		"namespace: {create: false}": {has: "kubectl label namespace grapnel-system", lacks: "get backupstoragelocations"},
		"locations: [{name: main, spec: {filesystem: {path: main}}}]": {has: "kubectl get backupstoragelocations.grapnel.dev", lacks: "kubectl apply"},
	} {
		rendered, err := renderChart(t, loadChart(t), values, nil)
		if err != nil {
			t.Fatal(err)
		}
		if notes := rendered.Info.Notes; !strings.Contains(notes, want.has) || strings.Contains(notes, want.lacks) {
			t.Errorf("%s: want notes with %q and without %q, got:\n%s", values, want.has, want.lacks, notes)
		}
	}
}

// TestDocs_Values renders the chart with the values that users copy, and looks up each value that
// the documents name.
func TestDocs_Values(t *testing.T) {
	t.Parallel()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, path := range []string{"docs/installation.md", "docs/guides/operate.md"} {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, content...)
	}
	blocks := regexp.MustCompile("(?ms)^```values\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	for _, block := range blocks {
		if _, err := renderChart(t, loadChart(t), block[1], nil); err != nil {
			t.Error(err)
		}
	}
	names := regexp.MustCompile("`((?:crds|csi|backupOnly|highAvailability|monitoring|namespace|network|plugins|podExec|quiesce|store|veleroHooks)\\.[a-zA-Z.]+)").
		FindAllStringSubmatch(string(text), -1)
	for _, name := range names {
		var value any = loadChart(t).Values
		if strings.HasSuffix(name[1], ".grapnel.dev") { // a resource
			continue
		}
		for key := range strings.SplitSeq(name[1], ".") {
			values, _ := value.(map[string]any)
			if value = values[key]; value == nil {
				t.Errorf("a document names the value %s, which the chart does not have", name[1])
				break
			}
		}
	}
	if len(blocks) == 0 || len(names) < 10 {
		t.Errorf("found only %d values files and %d values in the documents", len(blocks), len(names))
	}
}

// TestPackage checks that a package has what the link in the chart leads to, and nothing else of that directory.
func TestPackage(t *testing.T) {
	t.Parallel()
	path, err := chartutil.Save(loadChart(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	packaged, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := renderChart(t, loadChart(t), withLocation, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := renderChart(t, packaged, withLocation, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Manifest != want.Manifest || len(got.Hooks) != 2 {
		t.Errorf("the package renders %d hooks, and a manifest of %d characters, want 2 and %d", len(got.Hooks), len(got.Manifest), len(want.Manifest))
	}
	for _, file := range packaged.Files {
		if file.Name != ".helmignore" && file.Name != "config/components/monitoring/dashboard.json" && (filepath.Ext(file.Name) != ".yaml" || strings.HasPrefix(file.Name, "config/samples/")) {
			t.Errorf("the package has %s", file.Name)
		}
	}
}
