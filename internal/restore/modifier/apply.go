// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package modifier

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// maxObjectBytes is the size of an object that no API server accepts anymore.
const maxObjectBytes = 4 << 20

// Rules are the rules of a ConfigMap. They are immutable, and safe for concurrent use.
type Rules struct{ rules []rule }

// Len returns the number of rules.
func (r *Rules) Len() int { return len(r.rules) }

// rule changes the objects that meet its conditions.
type rule struct {
	conditions
	patches []patch
}

// conditions select objects.
type conditions struct {
	resource   glob.Glob
	name       *regexp.Regexp
	namespaces []glob.Glob
	labels     labels.Selector
	tests      jsonpatch.Patch
}

// patch is one patch of a rule.
type patch interface {
	// apply returns the changed object. It returns errNotApplicable if the rule does not apply.
	apply(object map[string]any) (map[string]any, error)
	// String describes the patch in errors.
	String() string
}

// errNotApplicable is the error for an object that does not pass a test of a rule.
var errNotApplicable = errors.New("the rule does not apply")

// Match returns the indexes of the rules whose conditions an object meets. As in Velero, all
// conditions are about the object before the first rule changes it, and about its namespace in
// the backup.
func (r *Rules) Match(resource schema.GroupResource, namespace string, object *unstructured.Unstructured) []int {
	var matched []int
	for i := range r.rules {
		if r.rules[i].matches(resource.String(), namespace, object) {
			matched = append(matched, i)
		}
	}
	return matched
}

func (c *conditions) matches(resource, namespace string, object *unstructured.Unstructured) bool {
	return c.resource.Match(resource) &&
		(namespace == "" || len(c.namespaces) == 0 || slices.ContainsFunc(c.namespaces, func(g glob.Glob) bool { return g.Match(namespace) })) &&
		(c.name == nil || c.name.MatchString(object.GetName())) &&
		c.labels.Matches(labels.Set(object.GetLabels())) &&
		c.passesTests(object.Object)
}

// passesTests reports whether an object has the values of the condition "matches".
func (c *conditions) passesTests(object map[string]any) bool {
	if len(c.tests) == 0 {
		return true
	}
	document, err := json.Marshal(object)
	if err != nil {
		return false
	}
	_, err = c.tests.Apply(document)
	return err == nil
}

// Apply applies rules, by their indexes, to an object. It fails without a change of the object.
func (r *Rules) Apply(object *unstructured.Unstructured, matched []int) error {
	changed := object.Object
	for _, i := range matched {
		next, err := r.rules[i].apply(changed)
		if err != nil {
			return fmt.Errorf("rule %d, %w", i+1, err)
		}
		if err := checkIdentity(object, next); err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
		changed = next
	}
	object.Object = changed
	return nil
}

func (r *rule) apply(object map[string]any) (map[string]any, error) {
	changed := object
	for i, p := range r.patches {
		next, err := p.apply(changed)
		switch {
		case errors.Is(err, errNotApplicable):
			return object, nil
		case err != nil:
			return nil, fmt.Errorf("patch %d (%s): %s", i+1, p, text.StripControl(text.Truncate(err.Error(), maxShownBytes)))
		}
		changed = next
	}
	return changed, nil
}

// checkIdentity fails if an object became another one.
func checkIdentity(object *unstructured.Unstructured, changed map[string]any) error {
	now := &unstructured.Unstructured{Object: changed}
	for _, field := range []struct{ name, want, got string }{
		{"apiVersion", object.GetAPIVersion(), now.GetAPIVersion()},
		{"kind", object.GetKind(), now.GetKind()},
		{"metadata.name", object.GetName(), now.GetName()},
		{"metadata.namespace", object.GetNamespace(), now.GetNamespace()},
	} {
		if field.got != field.want {
			return errIdentity(field.name)
		}
	}
	return nil
}

// jsonPatchOperation is one operation of a JSON patch (RFC 6902).
type jsonPatchOperation struct {
	operations  jsonpatch.Patch
	isTest      bool
	description string
}

func (p *jsonPatchOperation) String() string { return p.description }

func (p *jsonPatchOperation) apply(object map[string]any) (map[string]any, error) {
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = maxObjectBytes
	changed, err := applyToJSON(object, func(document []byte) ([]byte, error) { return p.operations.ApplyWithOptions(document, options) })
	if err != nil && p.isTest {
		return nil, errNotApplicable
	}
	return changed, err
}

// mergePatch is a JSON merge patch (RFC 7386).
type mergePatch struct{ patch []byte }

func (p *mergePatch) String() string { return "a merge patch" }

func (p *mergePatch) apply(object map[string]any) (map[string]any, error) {
	return applyToJSON(object, func(document []byte) ([]byte, error) { return jsonpatch.MergePatch(document, p.patch) })
}

// strategicPatch is a strategic merge patch.
type strategicPatch struct{ patch map[string]any }

func (p *strategicPatch) String() string { return "a strategic merge patch" }

func (p *strategicPatch) apply(object map[string]any) (map[string]any, error) {
	gvk := (&unstructured.Unstructured{Object: object}).GroupVersionKind()
	typed, err := clientgoscheme.Scheme.New(gvk)
	if runtime.IsNotRegisteredError(err) {
		return nil, fmt.Errorf("%s is not a kind of Kubernetes itself, so its lists have no merge keys; use mergePatches or patches", gvk.Kind)
	}
	if err != nil {
		return nil, err
	}
	// The library changes its arguments.
	changed, err := strategicpatch.StrategicMergeMapPatch(runtime.DeepCopyJSON(object), runtime.DeepCopyJSON(p.patch), typed)
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// applyToJSON changes an object by its JSON.
func applyToJSON(object map[string]any, change func(document []byte) ([]byte, error)) (map[string]any, error) {
	document, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	if document, err = change(document); err != nil {
		return nil, err
	}
	if len(document) > maxObjectBytes {
		return nil, fmt.Errorf("the object would have more than %d bytes", maxObjectBytes)
	}
	changed := map[string]any{}
	if err := utiljson.Unmarshal(document, &changed); err != nil {
		return nil, fmt.Errorf("decoding the changed object: %w", err)
	}
	return changed, nil
}
