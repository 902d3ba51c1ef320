// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package modifier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/internal/strictyaml"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// The limits of a ConfigMap.
const (
	maxRules          = 128
	maxPatches        = 256
	maxNamespaces     = 1024
	maxExpressionSize = 253
	// maxInstructions limits the memory and the time of a regular expression.
	maxInstructions = 4096
	// maxPatchBytes is for all patches together.
	maxPatchBytes = 1 << 20

	maxShownErrors  = 20
	maxShownBytes   = 200
	maxShownPattern = 60
)

// The types of the ConfigMap's document.
type (
	document struct {
		Version string            `json:"version"`
		Rules   []json.RawMessage `json:"resourceModifierRules"`
	}
	ruleDocument struct {
		Conditions       conditionsDocument `json:"conditions"`
		Patches          []jsonPatch        `json:"patches"`
		MergePatches     []patchData        `json:"mergePatches"`
		StrategicPatches []patchData        `json:"strategicPatches"`
	}
	conditionsDocument struct {
		GroupResource     string                `json:"groupResource"`
		ResourceNameRegex string                `json:"resourceNameRegex"`
		Namespaces        []string              `json:"namespaces"`
		LabelSelector     *metav1.LabelSelector `json:"labelSelector"`
		Matches           []struct {
			Path  string `json:"path"`
			Value string `json:"value"`
		} `json:"matches"`
	}
	jsonPatch struct {
		Operation string `json:"operation"`
		From      string `json:"from"`
		Path      string `json:"path"`
		Value     string `json:"value"`
	}
	patchData struct {
		PatchData string `json:"patchData"`
	}
)

// Parse returns the rules in the data of a ConfigMap, or all errors in them.
func Parse(data map[string]string) (*Rules, []error) {
	if len(data) != 1 {
		return nil, []error{fmt.Errorf("it has %d keys; put all rules into one", len(data))}
	}
	p := parser{rules: &Rules{}}
	for _, value := range data {
		p.parseDocument(value)
	}
	if more := len(p.errs) - maxShownErrors; more > 0 {
		p.errs = append(p.errs[:maxShownErrors], fmt.Errorf("%d more errors", more))
	}
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return p.rules, nil
}

// parser collects the rules and the errors of a document.
type parser struct {
	rules      *Rules
	errs       []error
	patchBytes int
}

func (p *parser) addError(where, format string, args ...any) {
	problem := fmt.Sprintf(format, args...)
	p.errs = append(p.errs, errors.New(where+": "+text.StripControl(text.Truncate(problem, maxShownBytes))))
}

func (p *parser) parseDocument(value string) {
	var doc document
	converted, err := strictyaml.ToJSON([]byte(value))
	if err == nil {
		err = decodeStrictly(converted, &doc)
	}
	switch {
	case err != nil:
		p.addError("the document", "%v; expected the fields version and resourceModifierRules", err)
		return
	case !strings.EqualFold(doc.Version, "v1"):
		p.addError("version", "%q is not supported; write v1", doc.Version)
	case len(doc.Rules) == 0:
		p.addError("resourceModifierRules", "there are no rules; add one, or remove spec.resourceModifier")
	case len(doc.Rules) > maxRules:
		p.addError("resourceModifierRules", "there are %d rules, and at most %d are allowed; combine some", len(doc.Rules), maxRules)
		return
	}
	for i, raw := range doc.Rules {
		var rule ruleDocument
		where := fmt.Sprintf("rule %d", i+1)
		if err := decodeStrictly(raw, &rule); err != nil {
			p.addError(where, "%v; compare it with the format of Velero's resource modifiers", err)
			continue
		}
		p.rules.rules = append(p.rules.rules, p.parseRule(where, &rule))
	}
}

// decodeStrictly rejects unknown fields, which may be misspelled conditions.
func decodeStrictly(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func (p *parser) parseRule(where string, doc *ruleDocument) rule {
	r := rule{conditions: p.parseConditions(where+", conditions.", &doc.Conditions)}
	kinds := 0
	for _, n := range []int{len(doc.Patches), len(doc.MergePatches), len(doc.StrategicPatches)} {
		if n > 0 {
			kinds++
		}
		if n > maxPatches {
			p.addError(where, "it has %d patches, and at most %d are allowed; use several rules", n, maxPatches)
			return r
		}
	}
	if kinds != 1 {
		p.addError(where, "it needs exactly one of patches, mergePatches and strategicPatches, and has %d; split the rule or add a patch", kinds)
	}
	for i := range doc.Patches {
		p.addPatch(&r, fmt.Sprintf("%s, patches[%d]", where, i), doc.Patches[i].Value, func() (patch, error) { return newJSONPatch(doc.Patches[i]) })
	}
	for i, data := range doc.MergePatches {
		p.addPatch(&r, fmt.Sprintf("%s, mergePatches[%d]", where, i), data.PatchData, func() (patch, error) { return newMergePatch(data) })
	}
	for i, data := range doc.StrategicPatches {
		p.addPatch(&r, fmt.Sprintf("%s, strategicPatches[%d]", where, i), data.PatchData, func() (patch, error) { return newStrategicPatch(data) })
	}
	return r
}

// addPatch adds a patch, unless all of them have become too large.
func (p *parser) addPatch(r *rule, where, data string, create func() (patch, error)) {
	if p.patchBytes > maxPatchBytes {
		return
	}
	if p.patchBytes += len(data); p.patchBytes > maxPatchBytes {
		p.addError(where, "the patches up to this one have more than %d bytes; remove some", maxPatchBytes)
		return
	}
	created, err := create()
	if err != nil {
		p.addError(where, "%v", err)
		return
	}
	r.patches = append(r.patches, created)
}

func (p *parser) parseConditions(where string, doc *conditionsDocument) conditions {
	var c conditions
	var err error
	if doc.GroupResource == "" {
		p.addError(where+"groupResource", "it is missing; name a resource, such as persistentvolumeclaims or deployments.apps")
	} else if c.resource, err = compileGlob(doc.GroupResource, '.'); err != nil {
		p.addError(where+"groupResource", "%v", err)
	}
	if c.name, err = compileExpression(doc.ResourceNameRegex); err != nil {
		p.addError(where+"resourceNameRegex", "%v", err)
	}
	if len(doc.Namespaces) > maxNamespaces {
		p.addError(where+"namespaces", "there are %d entries, and at most %d are allowed; use patterns", len(doc.Namespaces), maxNamespaces)
		return c
	}
	for i, namespace := range doc.Namespaces {
		compiled, err := compileGlob(namespace)
		if err != nil {
			p.addError(fmt.Sprintf("%snamespaces[%d]", where, i), "%v", err)
			continue
		}
		c.namespaces = append(c.namespaces, compiled)
	}
	c.labels = labels.Everything()
	if doc.LabelSelector != nil {
		if c.labels, err = metav1.LabelSelectorAsSelector(doc.LabelSelector); err != nil {
			p.addError(where+"labelSelector", "%v; fix the selector", err)
		}
	}
	if len(doc.Matches) > maxPatches {
		p.addError(where+"matches", "there are %d entries, and at most %d are allowed", len(doc.Matches), maxPatches)
		return c
	}
	for i, match := range doc.Matches {
		test, err := newJSONPatch(jsonPatch{Operation: "test", Path: match.Path, Value: match.Value})
		if err != nil {
			p.addError(fmt.Sprintf("%smatches[%d]", where, i), "%v", err)
			continue
		}
		c.tests = append(c.tests, test.operations...)
	}
	return c
}

func compileGlob(pattern string, separators ...rune) (glob.Glob, error) {
	compiled, err := glob.Compile(pattern, separators...)
	if err != nil {
		return glob.Glob{}, fmt.Errorf("%q is not a valid pattern: %w", text.Truncate(pattern, maxShownPattern), err)
	}
	return compiled, nil
}

// compileExpression returns nil for an empty expression, which matches every name.
func compileExpression(expression string) (*regexp.Regexp, error) {
	if expression == "" {
		return nil, nil
	}
	if len(expression) > maxExpressionSize {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are allowed; use several rules", len(expression), maxExpressionSize)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("%w; write an expression of https://github.com/google/re2/wiki/Syntax", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, fmt.Errorf("compiling it: %w", err)
	}
	if len(program.Inst) > maxInstructions {
		return nil, errors.New("it repeats too much; use smaller counts")
	}
	return regexp.Compile(expression)
}

// identityPaths are the paths that a JSON patch may test and not change.
var identityPaths = []string{"/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace"}

// errIdentity is the error for a change of what identifies an object.
func errIdentity(field string) error {
	return fmt.Errorf("it changes %s, which a rule must not; remove it (spec.namespaceMapping restores into other namespaces)", field)
}

func newJSONPatch(doc jsonPatch) (*jsonPatchOperation, error) {
	operation := strings.ToLower(doc.Operation)
	encoded := map[string]any{"op": operation, "path": doc.Path}
	var changed []string
	switch operation {
	case "add", "replace", "test":
		value, err := toJSONValue(doc.Value)
		if err != nil {
			return nil, err
		}
		encoded["value"] = value
		changed = []string{doc.Path}
	case "remove":
		changed = []string{doc.Path}
	case "move":
		changed = []string{doc.From, doc.Path}
	case "copy":
		changed = []string{doc.Path}
	default:
		return nil, fmt.Errorf("operation is %q; write add, remove, replace, move, copy or test", text.Truncate(doc.Operation, maxShownBytes))
	}
	if operation == "move" || operation == "copy" {
		encoded["from"] = doc.From
		if !strings.HasPrefix(doc.From, "/") {
			return nil, fmt.Errorf("from is %q; it must begin with a slash", text.Truncate(doc.From, maxShownBytes))
		}
	}
	if !strings.HasPrefix(doc.Path, "/") {
		return nil, fmt.Errorf("path is %q; it must begin with a slash", text.Truncate(doc.Path, maxShownBytes))
	}
	for _, path := range changed {
		if operation != "test" && slices.Contains(identityPaths, path) {
			return nil, errIdentity(strings.ReplaceAll(path[1:], "/", "."))
		}
	}
	raw, err := json.Marshal([]any{encoded})
	if err != nil {
		return nil, fmt.Errorf("encoding it: %w", err)
	}
	decoded, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		return nil, fmt.Errorf("decoding it: %w", err)
	}
	return &jsonPatchOperation{operations: decoded, isTest: operation == "test", description: operation + " " + text.Truncate(doc.Path, maxShownBytes)}, nil
}

// toJSONValue returns the JSON that a value stands for, as in Velero: objects, lists, numbers,
// booleans, null and texts in quotes are JSON, and everything else is a text.
func toJSONValue(value string) (json.RawMessage, error) {
	switch lower := strings.ToLower(value); {
	case lower == "true" || lower == "false":
		return json.RawMessage(lower), nil
	case strings.HasPrefix(value, "{") || strings.HasPrefix(value, "["):
		if !json.Valid([]byte(value)) {
			return nil, errors.New("value begins like JSON and is not valid JSON; fix it, or put quotes that belong to the value around it")
		}
		return json.RawMessage(value), nil
	case value == strings.TrimSpace(value) && json.Valid([]byte(value)):
		return json.RawMessage(value), nil
	}
	if quoted := `"` + value + `"`; json.Valid([]byte(quoted)) { // Velero reads escapes of JSON in it
		return json.RawMessage(quoted), nil
	}
	return json.Marshal(value)
}

// decodePatchData decodes YAML or JSON that must be an object.
func decodePatchData(data patchData) (map[string]any, []byte, error) {
	raw, err := strictyaml.ToJSON([]byte(data.PatchData))
	if err != nil {
		return nil, nil, fmt.Errorf("patchData: %w; write YAML or JSON", err)
	}
	var decoded any
	if err := utiljson.Unmarshal(raw, &decoded); err != nil {
		return nil, nil, fmt.Errorf("patchData: %w; write YAML or JSON", err)
	}
	fields, ok := decoded.(map[string]any)
	if !ok || len(fields) == 0 {
		return nil, nil, errors.New("patchData is not an object with fields; write the fields to change")
	}
	return fields, raw, nil
}

func newMergePatch(data patchData) (patch, error) {
	_, raw, err := decodePatchData(data)
	return &mergePatch{patch: raw}, err
}

func newStrategicPatch(data patchData) (patch, error) {
	fields, _, err := decodePatchData(data)
	return &strategicPatch{patch: fields}, err
}
