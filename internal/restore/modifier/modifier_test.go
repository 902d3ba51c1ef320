// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package modifier_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/internal/restore/modifier"
)

var (
	deploymentResource = schema.GroupResource{Group: "apps", Resource: "deployments"}
	claimResource      = schema.GroupResource{Resource: "persistentvolumeclaims"}
)

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web-1","namespace":"mapped","labels":{"app":"web"}},
	"spec":{"replicas":3,"paused":false,"template":{"spec":{"containers":[
		{"name":"app","image":"old/app:1","env":[{"name":"A","value":"1"}]},{"name":"side","image":"old/side:1"}]}}}}`

func parseObject(t testing.TB, document string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{}
	if err := utiljson.Unmarshal([]byte(document), &object); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

func parseRules(t testing.TB, document string) *modifier.Rules {
	t.Helper()
	rules, errs := modifier.Parse(map[string]string{"rules.yaml": document})
	if len(errs) > 0 {
		t.Fatalf("parsing: %v", errs)
	}
	return rules
}

// TestRules_Apply compares a changed object, as the JSON merge patch from the original one, with
// what Velero's documentation says.
func TestRules_Apply(t *testing.T) {
	t.Parallel()
	rule := func(patches string) string {
		return "version: v1\nresourceModifierRules:\n- conditions: {groupResource: deployments.apps}\n" + patches
	}
	for name, tc := range map[string]struct {
		rules, want, err string
	}{
		"operations of a JSON patch, in order": {
			rules: rule(`
  patches:
  - {operation: replace, path: /spec/replicas, value: "1"}
  - {operation: Add, path: /metadata/labels/tier, value: front}
  - {operation: copy, from: /metadata/labels/tier, path: /metadata/labels/copied}
  - {operation: move, from: /metadata/labels/app, path: /metadata/labels/moved}
  - {operation: remove, path: /spec/template/spec/containers/1}`),
			want: `{"metadata":{"labels":{"tier":"front","copied":"front","moved":"web"}},"spec":{"replicas":1,"paused":false,
				"template":{"spec":{"containers":[{"name":"app","image":"old/app:1","env":[{"name":"A","value":"1"}]}]}}}}`,
		},
		"values of all types": {
			rules: rule(`
  patches:
  - {operation: add, path: /spec/a, value: "True"}
  - {operation: add, path: /spec/b, value: "\"true\""}
  - {operation: add, path: /spec/c, value: "null"}
  - {operation: add, path: /spec/d, value: "-1.5e3"}
  - {operation: add, path: /spec/e, value: "007"}
  - {operation: add, path: /spec/f, value: 'say "hi"'}
  - {operation: add, path: /spec/g, value: '[{"a": 1}]'}
  - {operation: add, path: /spec/h}
  - {operation: add, path: /spec/i, value: 'two\nlines'}
  - {operation: add, path: /spec/j, value: inf}
  - {operation: remove, path: /spec/template}
  - {operation: remove, path: /spec/replicas}
  - {operation: remove, path: /spec/paused}`),
			want: `{"metadata":{"labels":{"app":"web"}},"spec":{"a":true,"b":"true","c":null,"d":-1500,"e":"007","f":"say \"hi\"",
				"g":[{"a":1}],"h":"","i":"two\nlines","j":"inf"}}`,
		},
		"a test that fails": {rules: rule(`
  patches:
  - {operation: replace, path: /spec/replicas, value: "1"}
  - {operation: test, path: /spec/paused, value: "true"}`)},
		"a test of a path that does not exist": {rules: rule(`
  patches:
  - {operation: test, path: /spec/no/such/path, value: "true"}
  - {operation: replace, path: /spec/replicas, value: "1"}`)},
		"a path that does not exist": {rules: rule(`
  patches:
  - {operation: replace, path: /spec/replicas, value: "1"}
  - {operation: remove, path: /spec/minReadySeconds}`), err: "rule 1, patch 2 (remove /spec/minReadySeconds): "},
		"an index that is too large": {rules: rule(`
  patches: [{operation: add, path: /spec/template/spec/containers/999999999, value: "{}"}]`), err: "rule 1, patch 1 (add /spec/template"},
		"merge patches": {
			rules: rule(`
  mergePatches:
  - patchData: |
      {"metadata": {"labels": {"app": null, "tier": "front"}}}
  - patchData: |
      spec:
        template: null
        replicas: 1`),
			want: `{"metadata":{"labels":{"tier":"front"}},"spec":{"replicas":1,"paused":false}}`,
		},
		"strategic patches": {
			rules: rule(`
  strategicPatches:
  - patchData: |
      spec:
        template:
          spec:
            containers:
            - {name: side, $patch: delete}
            - name: app
              image: new/app:1
              env: [{name: B, value: "2"}]`),
			want: `{"metadata":{"labels":{"app":"web"}},"spec":{"replicas":3,"paused":false,"template":{"spec":{"containers":[
				{"name":"app","image":"new/app:1","env":[{"name":"B","value":"2"},{"name":"A","value":"1"}]}]}}}}`,
		},
		"conditions are about the original object": {
			rules: rule(`
  patches: [{operation: replace, path: /metadata/labels/app, value: changed}]
- conditions: {groupResource: deployments.apps, labelSelector: {matchLabels: {app: web}}}
  mergePatches: [{patchData: "spec: {template: null, replicas: 1}"}]
- conditions: {groupResource: deployments.apps, matches: [{path: /spec/replicas, value: "1"}]}
  mergePatches: [{patchData: "spec: {replicas: 2}"}]`),
			want: `{"metadata":{"labels":{"app":"changed"}},"spec":{"replicas":1,"paused":false}}`,
		},
		"a merge patch of the name":            {rules: rule(`  mergePatches: [{patchData: "metadata: {name: other}"}]`), err: "rule 1: it changes metadata.name"},
		"a merge patch that repeats the name":  {rules: rule(`  mergePatches: [{patchData: "metadata: {name: web-1}"}]`)},
		"a merge patch of the kind":            {rules: rule(`  mergePatches: [{patchData: "kind: DaemonSet"}]`), err: "it changes kind"},
		"a merge patch that removes metadata":  {rules: rule(`  mergePatches: [{patchData: "metadata: null"}]`), err: "it changes metadata.name"},
		"a strategic patch that replaces it":   {rules: rule(`  strategicPatches: [{patchData: "{$patch: replace, kind: Secret}"}]`), err: "it changes apiVersion"},
		"a strategic patch of the namespace":   {rules: rule(`  strategicPatches: [{patchData: "metadata: {namespace: kube-system}"}]`), err: "it changes metadata.namespace"},
		"a strategic patch without merge keys": {rules: rule(`  strategicPatches: [{patchData: "spec: {template: {spec: {containers: [{image: a}]}}}"}]`), err: "rule 1, patch 1 (a strategic merge patch): "},
		"a JSON patch that doubles a thousand times": {rules: rule("  patches:" + strings.Repeat(
			"\n  - {operation: copy, from: /spec, path: /spec/copy}\n  - {operation: move, from: /spec/copy, path: /spec/copy2}\n  - {operation: copy, from: /spec, path: /spec/template}", 80)), err: "rule 1, patch "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object, original := parseObject(t, deployment), parseObject(t, deployment)
			rules := parseRules(t, tc.rules)
			err := rules.Apply(object, rules.Match(deploymentResource, "web", object))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				tc.want = ""
			} else if err != nil {
				t.Fatal(err)
			}
			want := original
			if tc.want != "" {
				want = parseObject(t, tc.want)
				want.SetAPIVersion("apps/v1")
				want.SetKind("Deployment")
				want.SetNamespace("mapped")
				want.SetName("web-1")
			}
			if diff := cmp.Diff(want.Object, object.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRules_ApplyStrategicToCustomResource: without a Go type there are no merge keys.
func TestRules_ApplyStrategicToCustomResource(t *testing.T) {
	t.Parallel()
	rules := parseRules(t, "version: v1\nresourceModifierRules:\n- conditions: {groupResource: \"*.example.org\"}\n  strategicPatches: [{patchData: \"spec: {a: b}\"}]")
	object := parseObject(t, `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w"}}`)
	err := rules.Apply(object, rules.Match(schema.GroupResource{Group: "example.org", Resource: "widgets"}, "", object))
	if err == nil || !strings.Contains(err.Error(), "use mergePatches") {
		t.Errorf("error %v", err)
	}
}

func TestRules_Match(t *testing.T) {
	t.Parallel()
	claim := parseObject(t, `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data-mysql-0","namespace":"mapped","labels":{"app":"db"}},
		"spec":{"storageClassName":"slow","accessModes":["ReadWriteOnce"]}}`)
	for conditions, want := range map[string]bool{
		`{groupResource: persistentvolumeclaims}`:                                                                          true,
		`{groupResource: "persistentvolume*"}`:                                                                             true,
		`{groupResource: "*"}`:                                                                                             true,
		`{groupResource: "*.*"}`:                                                                                           false,
		`{groupResource: "{secrets,persistentvolumeclaims}"}`:                                                              true,
		`{groupResource: persistentvolumes}`:                                                                               false,
		`{groupResource: persistentvolumeclaims, resourceNameRegex: mysql}`:                                                true,
		`{groupResource: persistentvolumeclaims, resourceNameRegex: "^mysql"}`:                                             false,
		`{groupResource: persistentvolumeclaims, namespaces: [db]}`:                                                        true,
		`{groupResource: persistentvolumeclaims, namespaces: [web, "d?"]}`:                                                 true,
		`{groupResource: persistentvolumeclaims, namespaces: [mapped]}`:                                                    false,
		`{groupResource: persistentvolumeclaims, labelSelector: {matchLabels: {app: db}}}`:                                 true,
		`{groupResource: persistentvolumeclaims, labelSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}}`: false,
		`{groupResource: persistentvolumeclaims, matches: [{path: /spec/storageClassName, value: slow}]}`:                  true,
		`{groupResource: persistentvolumeclaims, matches: [{path: /spec/accessModes/0, value: ReadWriteOnce}, {path: /spec/storageClassName, value: fast}]}`: false,
		`{groupResource: persistentvolumeclaims, matches: [{path: /spec/volumeName, value: v}]}`:                                                             false,
		`{groupResource: persistentvolumeclaims, matches: [{path: /spec/accessModes/7, value: ReadWriteOnce}]}`:                                              false,
		`{groupResource: persistentvolumeclaims, matches: [{path: /spec/storageClassName/deeper, value: slow}]}`:                                             false,
	} {
		rules := parseRules(t, "version: v1\nresourceModifierRules:\n- conditions: "+conditions+"\n  mergePatches: [{patchData: \"spec: {a: b}\"}]")
		if got := len(rules.Match(claimResource, "db", claim)) == 1; got != want {
			t.Errorf("%s: it matches: %v, want %v", conditions, got, want)
		}
	}
	rules := parseRules(t, "version: v1\nresourceModifierRules:\n- conditions: {groupResource: nodes, namespaces: [db]}\n  mergePatches: [{patchData: \"spec: {a: b}\"}]")
	if len(rules.Match(schema.GroupResource{Resource: "nodes"}, "", claim)) != 1 {
		t.Error("a condition on namespaces excludes cluster-scoped objects")
	}
}

// TestParse_Errors: each message names the rule and the field, and does not depend on objects.
func TestParse_Errors(t *testing.T) {
	t.Parallel()
	const head = "version: v1\nresourceModifierRules:\n"
	const good = "- conditions: {groupResource: pods}\n  mergePatches: [{patchData: 'spec: {a: b}'}]\n"
	withPatch := func(patch string) string {
		return head + good + "- conditions: {groupResource: pods}\n  patches: [" + patch + "]\n"
	}
	withConditions := func(conditions string) string {
		return head + good + "- conditions: {groupResource: pods, " + conditions + "}\n  mergePatches: [{patchData: 'spec: {a: b}'}]\n"
	}
	withMerge := func(data string) string {
		return head + good + "- conditions: {groupResource: pods}\n  mergePatches: [{patchData: " + data + "}]\n"
	}
	for name, tc := range map[string]struct{ document, want string }{
		"nothing":                       {"", `version: "" is not supported; write v1`},
		"no YAML":                       {"\t{", "the document: "},
		"a list":                        {"[]", "the document: "},
		"another version":               {"version: v2\nresourceModifierRules: []", `version: "v2" is not supported; write v1`},
		"no rules":                      {"version: v1", "resourceModifierRules: there are no rules"},
		"an unknown field":              {"version: v1\nrules: []", `the document: json: unknown field "rules"`},
		"a duplicate field":             {head + good + "version: v1\n", "the document: "},
		"too many rules":                {head + strings.Repeat(good, 129), "resourceModifierRules: there are 129 rules"},
		"an unknown field of a rule":    {head + good + "- conditions: {groupKind: pods}\n", `rule 2: json: unknown field "groupKind"`},
		"a rule that is a text":         {head + good + "- text\n", "rule 2: "},
		"a rule without patches":        {head + good + "- conditions: {groupResource: pods}\n", "rule 2: it needs exactly one of patches, mergePatches and strategicPatches, and has 0"},
		"a rule with two types":         {head + "- conditions: {groupResource: pods}\n  mergePatches: [{patchData: 'a: b'}]\n  strategicPatches: [{patchData: 'a: b'}]\n", "rule 1: it needs exactly one of patches, mergePatches and strategicPatches, and has 2"},
		"no resource":                   {head + "- conditions: {}\n  mergePatches: [{patchData: 'a: b'}]\n", "rule 1, conditions.groupResource: it is missing"},
		"an invalid resource":           {head + "- conditions: {groupResource: 'a[b'}\n  mergePatches: [{patchData: 'a: b'}]\n", `rule 1, conditions.groupResource: "a[b" is not a valid pattern`},
		"an invalid expression":         {withConditions(`resourceNameRegex: "(("`), "rule 2, conditions.resourceNameRegex: error parsing regexp: "},
		"an expression that looks back": {withConditions(`resourceNameRegex: "(?<=a)b"`), "rule 2, conditions.resourceNameRegex: error parsing regexp: "},
		"an expression with counts":     {withConditions(`resourceNameRegex: "` + strings.Repeat("a{1000}", 30) + `"`), "rule 2, conditions.resourceNameRegex: it repeats too much"},
		"a long expression":             {withConditions(`resourceNameRegex: "` + strings.Repeat("a", 254) + `"`), "rule 2, conditions.resourceNameRegex: it has 254 bytes"},
		"an empty namespace":            {withConditions(`namespaces: [a, ""]`), `rule 2, conditions.namespaces[1]: "" is not a valid pattern: it has 0 bytes`},
		"an invalid selector":           {withConditions(`labelSelector: {matchExpressions: [{key: a, operator: Maybe}]}`), "rule 2, conditions.labelSelector: "},
		"a condition without a path":    {withConditions(`matches: [{value: b}]`), `rule 2, conditions.matches[0]: path is ""; it must begin with a slash`},
		"an unknown operation":          {withPatch("{operation: merge, path: /a}"), `rule 2, patches[0]: operation is "merge"`},
		"no operation":                  {withPatch("{path: /a}"), `rule 2, patches[0]: operation is ""`},
		"no path":                       {withPatch("{operation: remove, path: a}"), `rule 2, patches[0]: path is "a"; it must begin with a slash`},
		"a copy from nowhere":           {withPatch("{operation: copy, path: /a}"), `rule 2, patches[0]: from is ""`},
		"invalid JSON":                  {withPatch(`{operation: add, path: /a, value: "{a"}`), "rule 2, patches[0]: value begins like JSON"},
		"a number as a value":           {withPatch(`{operation: add, path: /a, value: 3}`), "rule 2: json: cannot unmarshal number"},
		"another name":                  {withPatch(`{operation: replace, path: /metadata/name, value: b}`), "rule 2, patches[0]: it changes metadata.name"},
		"another namespace":             {withPatch(`{operation: move, path: /spec/a, from: /metadata/namespace}`), "rule 2, patches[0]: it changes metadata.namespace"},
		"another kind":                  {withPatch(`{operation: copy, path: /kind, from: /spec/a}`), "rule 2, patches[0]: it changes kind"},
		"a merge patch of a text":       {withMerge("text"), "rule 2, mergePatches[0]: patchData is not an object"},
		"an empty merge patch":          {withMerge(`""`), "rule 2, mergePatches[0]: patchData is not an object"},
		"an invalid merge patch":        {withMerge(`"{"`), "rule 2, mergePatches[0]: patchData: "},
		"a long text in many aliases":   {"x: &a '" + strings.Repeat("x", 1<<16) + "'\ny: [" + strings.Repeat("*a,", 1000) + "]\n", "the document: yaml: line 2: the alias *a"},
		"a patch with an alias":         {withMerge(`"a: &b c\nd: *b"`), "rule 2, mergePatches[0]: patchData: yaml: line 2: the alias *b"},
		"large patches": {head + "- conditions: {groupResource: pods}\n  patches:\n" +
			strings.Repeat("  - {operation: add, path: /a, value: '"+strings.Repeat("x", 1<<16)+"'}\n", 17), "rule 1, patches[16]: the patches up to this one have more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules, errs := modifier.Parse(map[string]string{"rules.yaml": tc.document})
			if len(errs) != 1 || rules != nil || !strings.HasPrefix(errs[0].Error(), tc.want) && !strings.Contains(errs[0].Error(), tc.want) || len(errs[0].Error()) > 300 {
				t.Errorf("rules %v, errors %q, want one with %q", rules, errs, tc.want)
			}
		})
	}
	if _, errs := modifier.Parse(map[string]string{"a": head + good, "b": head + good}); len(errs) != 1 || !strings.Contains(errs[0].Error(), "2 keys") {
		t.Errorf("two keys: %q", errs)
	}
	if _, errs := modifier.Parse(nil); len(errs) != 1 {
		t.Errorf("no keys: %q", errs)
	}
	if _, errs := modifier.Parse(map[string]string{"a": head + strings.Repeat("- {}\n", 100)}); len(errs) != 21 {
		t.Errorf("%d errors", len(errs))
	}
}

// TestDocumentation parses the rules of the guide.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../docs/guides/resource-modifiers.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for block := range strings.SplitSeq(string(guide), "```") {
		manifest, isYAML := strings.CutPrefix(block, "yaml\n")
		for document := range strings.SplitSeq(manifest, "\n---\n") {
			var config corev1.ConfigMap
			if err := yaml.Unmarshal([]byte(document), &config); !isYAML || err != nil || config.Kind != "ConfigMap" || len(config.Labels) > 0 {
				continue
			}
			found++
			if rules, errs := modifier.Parse(config.Data); len(errs) > 0 || rules.Len() < 3 {
				t.Errorf("ConfigMap %s: %q", config.Name, errs)
			}
		}
	}
	if found == 0 {
		t.Error("the guide has no ConfigMap")
	}
}

// FuzzParse: whatever a ConfigMap contains, parsing and applying it neither panics nor changes what
// identifies the object.
func FuzzParse(f *testing.F) {
	const head = "version: v1\nresourceModifierRules:\n- conditions: {groupResource: '*.apps'}\n  "
	f.Add(head + "patches: [{operation: copy, from: /spec, path: /spec/template/spec/containers/-}]")
	f.Add(head + "mergePatches: [{patchData: 'metadata: {labels: null}'}]")
	f.Add(head + "strategicPatches: [{patchData: 'spec: {template: {spec: {containers: [{$patch: replace}]}}}'}]")
	f.Fuzz(func(t *testing.T, document string) {
		rules, errs := modifier.Parse(map[string]string{"rules": document})
		if len(errs) > 0 {
			return
		}
		object := parseObject(t, deployment)
		if err := rules.Apply(object, rules.Match(deploymentResource, "web", object)); err != nil {
			return
		}
		if object.GetName() != "web-1" || object.GetNamespace() != "mapped" || object.GetKind() != "Deployment" || object.GetAPIVersion() != "apps/v1" {
			t.Errorf("it became %v", object)
		}
		if _, err := json.Marshal(object.Object); err != nil {
			t.Error(err)
		}
	})
}
