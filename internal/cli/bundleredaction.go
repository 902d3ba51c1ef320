// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

const (
	// minLearnedValue is the length from which on a value is removed everywhere although its name does not suggest a
	// secret. Shorter ones are often ordinary words.
	minLearnedValue = 12
	// maxAnnotation is the length from which on annotations of others are removed: they may have copies of objects.
	maxAnnotation = 64
)

// objectRedactor removes from objects what may be secret.
type objectRedactor struct{ *redact.Redactor }

// redactObject removes values that may be secret from an object: variables of Plugins, parameters and outputs of
// actions, copies of the object in annotations, and what looks like a secret. It registers the removed values, so that
// they are also removed from texts that are redacted later.
func (r objectRedactor) redactObject(object *unstructured.Unstructured) {
	object.SetManagedFields(nil)
	for key, value := range object.Object {
		object.Object[key] = r.redactField(key, value)
	}
}

// redactTexts returns a value without the secrets that are known by now, those of other objects, too. It may change maps
// and lists in place.
func (r objectRedactor) redactTexts(value any) any {
	switch v := value.(type) {
	case string:
		return r.String(v)
	case map[string]any:
		for key := range v {
			v[key] = r.redactTexts(v[key])
		}
	case []any:
		for i := range v {
			v[i] = r.redactTexts(v[i])
		}
	}
	return value
}

// redactField returns the value of a field without secrets. It may change maps and lists in place.
func (r objectRedactor) redactField(key string, value any) any {
	switch v := value.(type) {
	case string:
		if key == "url" {
			return r.redactURL(v)
		}
		return r.RedactPair(key, v)
	case map[string]any:
		for name, field := range v {
			switch key {
			case "parameters", "outputs", "backupOutputs":
				v[name] = r.removeValues(name, field)
			case "annotations":
				v[name] = r.redactAnnotation(name, field)
			default:
				v[name] = r.redactField(name, field)
			}
		}
	case []any:
		for i := range v {
			if variable, ok := v[i].(map[string]any); ok && key == "env" {
				r.removeVariable(variable)
				continue
			}
			if i > 0 && r.isSecretFlag(v[i-1]) {
				v[i] = r.removeValues("", v[i])
				continue
			}
			v[i] = r.redactField(key, v[i])
		}
	}
	return value
}

// redactURL returns the scheme and host of a URL: that of a webhook may have a secret in its path.
func (r objectRedactor) redactURL(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return redact.Placeholder
	}
	if strings.TrimPrefix(parsed.Path, "/") == "" && parsed.RawQuery == "" && parsed.User == nil {
		return text
	}
	r.AddValues(text)
	return parsed.Scheme + "://" + parsed.Host + "/" + redact.Placeholder
}

// isSecretFlag reports whether the argument after a flag is a secret, as in --password SECRET.
func (r objectRedactor) isSecretFlag(argument any) bool {
	text, ok := argument.(string)
	return ok && strings.HasPrefix(text, "-") && !strings.Contains(text, "=") && r.IsSensitive(text)
}

// removeVariable removes the value of an environment variable. What it reads from a Secret is only a name.
func (r objectRedactor) removeVariable(variable map[string]any) {
	name, _ := variable["name"].(string)
	if value, exists := variable["value"]; exists {
		variable["value"] = r.removeValues(name, value)
	}
}

// removeValues replaces all texts in a value, whatever they are.
func (r objectRedactor) removeValues(name string, value any) any {
	switch v := value.(type) {
	case string:
		if v == "" {
			return v
		}
		if len(v) >= minLearnedValue || r.IsSensitive(name) {
			r.AddValues(v)
		}
		return redact.Placeholder
	case map[string]any:
		for key := range v {
			v[key] = r.removeValues(key, v[key])
		}
	case []any:
		for i := range v {
			v[i] = r.removeValues(name, v[i])
		}
	}
	return value
}

// redactAnnotation returns the value of an annotation. Those of Grapnel are needed; of the others, only short ones are
// kept, for example skip.
func (r objectRedactor) redactAnnotation(name string, value any) any {
	text, _ := value.(string)
	isOurs := strings.HasPrefix(name, v1alpha1.GroupVersion.Group+"/")
	if !isOurs && (len(text) > maxAnnotation || name == corev1.LastAppliedConfigAnnotation || slices.Contains([]string{"{", "["}, text[:min(1, len(text))])) {
		return redact.Placeholder
	}
	return r.RedactPair(name, text)
}
