// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package veleromigration

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/printers"
)

var update = flag.Bool("update", false, "write the files in testdata, and the table in docs/guides/from-velero.md")

// readInput reads the input of a case.
func readInput(t *testing.T, name string) []Input {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name, "input.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	inputs, err := ReadFile("input.yaml", file)
	if err != nil {
		t.Fatal(err)
	}
	return inputs
}

// checkFile compares a text with a file.
func checkFile(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nIf this is right: go test ./internal/veleromigration -update", path, diff)
	}
}

// TestConvert compares the objects and the report, and checks for each that every field is there once.
func TestConvert(t *testing.T) {
	for name, options := range map[string]Options{
		"fields": {}, "locations": {}, "runs": {}, "hostile": {}, "secrets": {IncludeSecrets: true},
	} {
		t.Run(name, func(t *testing.T) {
			options.Namespace = "grapnel-system"
			conversions, err := Convert(readInput(t, name), options)
			if err != nil {
				t.Fatal(err)
			}
			var objects, report bytes.Buffer
			printer := &printers.YAMLPrinter{}
			for i := range conversions {
				checkFields(t, &conversions[i])
				for _, object := range conversions[i].Objects {
					if err := printer.PrintObj(object, &objects); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := WriteReport(&report, conversions); err != nil {
				t.Fatal(err)
			}
			checkFile(t, filepath.Join("testdata", name, "output.yaml"), objects.String())
			checkFile(t, filepath.Join("testdata", name, "report.txt"), report.String())
			if strings.ContainsFunc(report.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Error("the report has control characters")
			}
			if strings.Contains(report.String(), "swordfish") {
				t.Error("the report has the value of a Secret")
			}
		})
	}
}

// checkFields checks that a conversion has each field of the object once, and that kept ones have the same value.
func checkFields(t *testing.T, c *Conversion) {
	t.Helper()
	leaves := map[string]any{}
	collectLeaves("", c.Object.Object, leaves)
	target := map[string]any{}
	for _, object := range c.Objects {
		collectLeaves("", object.Object, target)
	}
	for _, f := range c.Fields {
		if f.IsAdded {
			continue
		}
		value, found := leaves[f.Path]
		if !found {
			t.Errorf("%s %s: %s is there twice, or is not in the object", c.Object.GetKind(), c.Object.GetName(), f.Path)
		}
		delete(leaves, f.Path)
		switch {
		case f.Outcome == OutcomeKept && f.Target == "" && !isEmpty(value) && value != "false":
			t.Errorf("%s %s: %s is kept, but without a target", c.Object.GetKind(), c.Object.GetName(), f.Path)
		case f.Outcome == OutcomeKept && f.Target != "" && fmt.Sprint(value) != fmt.Sprint(target[f.Target]):
			t.Errorf("%s %s: %s is %v, and %s %v", c.Object.GetKind(), c.Object.GetName(), f.Path, value, f.Target, target[f.Target])
		case f.Outcome == OutcomeLost && f.Note == "" && c.Reason == "":
			t.Errorf("%s %s: %s is lost, and nothing says what to do", c.Object.GetKind(), c.Object.GetName(), f.Path)
		}
	}
	if len(leaves) > 0 {
		t.Errorf("%s %s: nothing says what became of %v", c.Object.GetKind(), c.Object.GetName(), slices.Sorted(maps.Keys(leaves)))
	}
}

// TestConvert_WithoutSecrets checks that no value of a Secret is anywhere, unless it is asked for.
func TestConvert_WithoutSecrets(t *testing.T) {
	conversions, err := Convert(readInput(t, "secrets"), Options{Namespace: "grapnel-system"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range conversions {
		if conversions[i].Object.GetKind() == kindSecret && len(conversions[i].Objects) > 0 {
			t.Errorf("Secret %s is converted", conversions[i].Object.GetName())
		}
		conversions[i].Input = Input{} // which has them
	}
	if text := fmt.Sprintf("%+v", conversions); strings.Contains(text, "swordfish") || strings.Contains(text, "c3dvcmRmaXNo") {
		t.Error(text)
	}
}

func TestConvert_Invalid(t *testing.T) {
	const schedule = "apiVersion: velero.io/v1\nkind: Schedule\nmetadata: {name: a, namespace: velero}\n"
	for name, tc := range map[string]struct{ input, want string }{
		"a type":         {schedule + "spec: {template: {includedNamespaces: shop}}", "in.yaml, document 1: Schedule velero/a: it is not valid"},
		"a duration":     {"# nothing\n---\n" + schedule + "spec: {template: {ttl: 30d}}", `in.yaml, document 2: Schedule velero/a: spec.template.ttl is not a valid duration: "30d"`},
		"a number":       {schedule + "spec: {template: {ttl: 30}}", "spec.template.ttl is not a valid duration"},
		"a negative one": {schedule + "spec: {template: {ttl: -1h}}", "spec.template.ttl is not a valid duration"},
		"a boolean":      {"apiVersion: velero.io/v1\nkind: BackupStorageLocation\nmetadata: {name: a}\nspec: {provider: aws, objectStorage: {bucket: abc}, config: {s3ForcePathStyle: maybe}}", "neither true nor false"},
		"a setting":      {"apiVersion: velero.io/v1\nkind: BackupStorageLocation\nmetadata: {name: a}\nspec: {provider: aws, objectStorage: {bucket: abc}, config: {region: 1}}", "spec.config has a value that is not a string"},
		"a name twice":   {schedule + "---\n" + strings.ReplaceAll(schedule, "namespace: velero", "namespace: other"), "both become Schedule a"},
	} {
		t.Run(name, func(t *testing.T) {
			inputs, err := ReadFile("in.yaml", strings.NewReader(tc.input))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Convert(inputs, Options{Namespace: "grapnel-system"}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

func TestReadFile_Invalid(t *testing.T) {
	const head = "apiVersion: velero.io/v1\nkind: Backup\nmetadata: "
	for name, tc := range map[string]struct{ input, want string }{
		"no YAML":             {"a: [", "in.yaml, document 1 is not an object"},
		"no object":           {"- a", "in.yaml, document 1 is not an object"},
		"a key twice":         {"kind: a\nkind: b", "in.yaml, document 1 is not an object"},
		"control characters":  {head + "{name: a}\nspec: {\"\\e[2Jx\": 1, \"\\e[2Jx\": 2}", "document 1 is not an object"},
		"no kind":             {"apiVersion: v1", "in.yaml, document 1: kind is missing"},
		"a kind":              {"apiVersion: v1\nkind: \"a\\nb\"\nmetadata: {name: a}", "is not a valid kind"},
		"no name":             {head + "{}", "metadata.name is missing"},
		"a name":              {head + "{name: ../a}", `metadata.name "../a" is not a valid name`},
		"a namespace":         {head + "{name: a, namespace: a/b}", "metadata.namespace"},
		"a label":             {head + "{name: a, labels: {a: 1}}", "metadata.labels"},
		"an item":             {"apiVersion: v1\nkind: List\nitems: [1]", "in.yaml, document 1, item 1 is not an object"},
		"lists in lists":      {"apiVersion: v1\nkind: List\nitems: [{kind: List, items: []}]", "item 1 is not an object"},
		"the second document": {head + "{name: a}\n---\nkind: Backup", "in.yaml, document 2"},
		"a large one":         {strings.Repeat("#", MaxInputBytes+1), "in.yaml has more than 64 MiB"},
		"many":                {strings.Repeat(head+"{name: a}\n---\n", MaxObjects+1), "more than 20000 objects"},
		"an alias":            {head + "{name: &a b, namespace: *a}", "line 3: the alias *a is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadFile("in.yaml", strings.NewReader(tc.input))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

// FuzzConvert checks that no input makes a field disappear.
func FuzzConvert(f *testing.F) {
	for _, name := range []string{"fields", "locations", "secrets", "runs", "hostile"} {
		content, err := os.ReadFile(filepath.Join("testdata", name, "input.yaml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		inputs, err := ReadFile("in.yaml", bytes.NewReader(content))
		if err != nil {
			return
		}
		conversions, err := Convert(inputs, Options{Namespace: "grapnel-system"})
		if err != nil {
			return
		}
		if len(conversions) != len(inputs) {
			t.Fatalf("%d conversions of %d objects", len(conversions), len(inputs))
		}
		for i := range conversions {
			checkFields(t, &conversions[i])
		}
	})
}
