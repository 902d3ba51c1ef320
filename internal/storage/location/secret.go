// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// errNoCredential means that a credential does not exist, as opposed to a failure to
// read it.
var errNoCredential = errors.New("no credential")

// readCredential reads the content of a location's credentials file, nil if it has none,
// and registers its secret values with the Redactor.
func (o *Opener) readCredential(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) ([]byte, error) {
	ref := bsl.Spec.Plugin.Credential
	if ref == nil {
		return nil, nil
	}
	var secret corev1.Secret
	err := o.Reader.Get(ctx, types.NamespacedName{Namespace: bsl.Namespace, Name: ref.Name}, &secret)
	content := secret.Data[ref.Key]
	switch {
	case apierrors.IsNotFound(err):
		return nil, &missingCredentialError{err: fmt.Errorf("reading the Secret %s of the location: %w", ref.Name, err)}
	case err != nil:
		return nil, fmt.Errorf("reading the Secret %s of the location: %w", ref.Name, err)
	case len(content) == 0:
		return nil, &missingCredentialError{err: fmt.Errorf("%w: Secret %s needs the key %s, which spec.plugin.credential names", ErrInvalidSpec, ref.Name, ref.Key)}
	}
	o.Redactor.AddRecentValues(secretValues(o.Redactor, content)...)
	return content, nil
}

// missingCredentialError marks an error as errNoCredential.
type missingCredentialError struct{ err error }

func (m *missingCredentialError) Error() string { return m.err.Error() }

func (m *missingCredentialError) Unwrap() []error { return []error{errNoCredential, m.err} }

const (
	// minSecretLength is the length in bytes from which a value of a credentials file is treated as
	// a secret, whatever its name is. Names of regions are shorter.
	minSecretLength = 16
	// maxSecretValues limits how many values of one file are redacted.
	maxSecretValues = 256
)

// secretValues returns the secrets of a credentials file: the whole content, and the
// values in it. Files are JSON, or lines of names and values.
func secretValues(redactor *redact.Redactor, content []byte) []string {
	values := []string{string(content)}
	add := func(name, value string) {
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		long := len(value) >= minSecretLength && !strings.Contains(value, "://") && !strings.HasPrefix(value, "-----")
		if len(values) < maxSecretValues && (long || redactor.IsSensitive(name)) {
			values = append(values, value)
		}
	}
	var parsed any
	if json.Unmarshal(content, &parsed) == nil {
		walkJSONStrings("", parsed, func(name, value string) {
			add(name, value)
			for line := range strings.Lines(value) { // a text may contain parts of a key
				add("", line)
			}
		})
		return values
	}
	for line := range strings.Lines(string(content)) {
		name, value, found := cutAny(line, "=:")
		if !found {
			name, value = "", line
		}
		add(name, value)
	}
	return values
}

// walkJSONStrings calls visit for all strings in a JSON value.
func walkJSONStrings(name string, value any, visit func(name, value string)) {
	switch value := value.(type) {
	case string:
		visit(name, value)
	case []any:
		for _, one := range value {
			walkJSONStrings(name, one, visit)
		}
	case map[string]any:
		for name, one := range value {
			walkJSONStrings(name, one, visit)
		}
	}
}

// cutAny cuts s at the first of some characters.
func cutAny(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
