// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// selectorProblems returns the parts of a selector that the operator would reject.
func selectorProblems(s item.Selector) []string {
	var problems []string
	if _, err := labels.Parse(s.LabelSelector); err != nil {
		problems = append(problems, fmt.Sprintf("the label selector %q cannot be read: %v", s.LabelSelector, err))
	}
	for _, namespace := range slices.Concat(s.IncludedNamespaces, s.ExcludedNamespaces) {
		// A wildcard is replaced with a character that is valid in a name.
		if len(validation.IsDNS1123Label(strings.NewReplacer("*", "a", "?", "a").Replace(namespace))) > 0 {
			problems = append(problems, fmt.Sprintf("%q is not the name of a namespace, nor a pattern of one", namespace))
		}
	}
	for _, resource := range slices.Concat(s.IncludedResources, s.ExcludedResources) {
		if resource != "*" && len(validation.IsDNS1123Subdomain(resource)) > 0 {
			problems = append(problems, fmt.Sprintf("%q is not the name of a resource like \"pods\" or \"deployments.apps\"", resource))
		}
	}
	for list, lists := range map[string][2][]string{
		"namespace": {s.IncludedNamespaces, s.ExcludedNamespaces}, "resource": {s.IncludedResources, s.ExcludedResources},
	} {
		for _, entry := range lists[0] {
			if slices.Contains(lists[1], entry) {
				problems = append(problems, fmt.Sprintf("the %s %q is included and excluded", list, entry))
			}
		}
	}
	return problems
}

// answerProblems returns the parts of a response for an object that the operator would
// reject.
func answerProblems(sent *unstructured.Unstructured, answer *itemAnswer) []string {
	var problems []string
	kept := map[string]func(*unstructured.Unstructured) string{
		"name": (*unstructured.Unstructured).GetName, "namespace": (*unstructured.Unstructured).GetNamespace,
	}
	if !answer.Converts {
		kept["apiVersion"], kept["kind"] = (*unstructured.Unstructured).GetAPIVersion, (*unstructured.Unstructured).GetKind
	}
	if !answer.SkipRestore {
		for what, of := range kept {
			if before, after := of(sent), of(answer.Item); before != after {
				problems = append(problems, fmt.Sprintf("the action changed the %s of the object from %q to %q", what, before, after))
			}
		}
	}
	for what, refs := range answer.Refs {
		for _, ref := range refs {
			if problem := itemRefProblem(ref); problem != "" {
				problems = append(problems, fmt.Sprintf("in the %s items, %+v is not the name of an object: %s", what, ref, problem))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(answer.Labels)) {
		invalid := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(answer.Labels[key]))
		if len(invalid) > 0 {
			problems = append(problems, fmt.Sprintf("%s=%s is not a label for the Backup: %s", key, answer.Labels[key], strings.Join(invalid, ", ")))
		}
	}
	return problems
}

// itemRefProblem returns what is wrong with the name of an object.
func itemRefProblem(ref item.Ref) string {
	switch {
	case len(validation.IsDNS1123Subdomain(ref.Resource)) > 0 || strings.Contains(ref.Resource, "."):
		return "the resource must be a lower-case plural like \"pods\", and its group a separate field"
	case ref.Group != "" && len(validation.IsDNS1123Subdomain(ref.Group)) > 0:
		return "the group must be a DNS name or empty"
	case ref.Namespace != "" && len(validation.IsDNS1123Label(ref.Namespace)) > 0:
		return "the namespace must be a DNS label, or empty for a cluster-scoped object"
	case ref.Name == "":
		return "the name is empty"
	default:
		return strings.Join(content.IsPathSegmentName(ref.Name), ", ")
	}
}
