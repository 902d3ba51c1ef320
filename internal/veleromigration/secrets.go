// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package veleromigration

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage/awscredentials"
)

// keyCredentialsFile is the key of a credentials file in a Secret of an s3 location.
const keyCredentialsFile = "cloud"

// secretRef is a key of a Secret.
type secretRef struct {
	namespace string
	v1alpha1.SecretKeyReference
}

// String returns namespace/name, for messages.
func (r secretRef) String() string { return strings.TrimPrefix(r.namespace+"/"+r.Name, "/") }

// checkNames returns an error if the reference is not valid.
func (r secretRef) checkNames() error {
	if len(validation.IsDNS1123Subdomain(r.Name)) > 0 || len(validation.IsConfigMapKey(r.Key)) > 0 {
		return fmt.Errorf("%.300q and %.300q are not the name and the key of a Secret", r.Name, r.Key)
	}
	return nil
}

// secretUse is a converted Secret that a location needs.
type secretUse struct {
	// name of the converted Secret, and key of the original one.
	name, key string
	// isAWS means that the Secret has a credentials file of AWS's tools, of which a profile is used.
	isAWS   bool
	profile string
}

// targetKey returns the key of the converted Secret.
func (u secretUse) targetKey() string {
	if u.isAWS {
		return keyCredentialsFile
	}
	return u.key
}

// createCommand returns the command that creates the Secret.
func (u secretUse) createCommand(namespace string) string {
	return fmt.Sprintf("kubectl create secret generic %s -n %s --from-file=%s=FILE", u.name, namespace, u.targetKey())
}

// secretUses knows the Secrets of the input, and which locations use them.
type secretUses struct {
	secrets map[string]*unstructured.Unstructured
	uses    map[string][]secretUse
	// read are the keys that were copied into a location.
	read map[secretRef]bool
}

func newSecretUses(inputs []Input) *secretUses {
	s := &secretUses{secrets: map[string]*unstructured.Unstructured{}, uses: map[string][]secretUse{}, read: map[secretRef]bool{}}
	for _, input := range inputs {
		if isSecret(input.Object) {
			s.secrets[objectName(input.Object)] = input.Object
		}
	}
	return s
}

// secretRef returns the reference in a field of a location.
func (l *ledger) secretRef(field string, location *unstructured.Unstructured) secretRef {
	return secretRef{
		namespace:          location.GetNamespace(),
		SecretKeyReference: v1alpha1.SecretKeyReference{Name: l.fieldText(field + ".name"), Key: l.fieldText(field + ".key")},
	}
}

// findSecret returns the Secret of a reference; nil if the input does not have it.
func (s *secretUses) findSecret(ref secretRef) *unstructured.Unstructured {
	return s.secrets[ref.String()]
}

// useSecret records that a location needs a converted Secret, or returns why it cannot be converted.
func (s *secretUses) useSecret(ref secretRef, use secretUse) (problem string) {
	secret := s.findSecret(ref)
	if secret == nil {
		return fmt.Sprintf("the input does not have Secret %s", ref)
	}
	if _, err := convertCredentials(secret, use); err != nil {
		return err.Error()
	}
	s.uses[ref.String()] = append(s.uses[ref.String()], use)
	return ""
}

// secretValue returns the value of a key.
func secretValue(secret *unstructured.Unstructured, key string) ([]byte, error) {
	if text, found, err := unstructured.NestedString(secret.Object, "stringData", key); found && err == nil {
		return []byte(text), nil
	}
	encoded, found, err := unstructured.NestedString(secret.Object, "data", key)
	if !found || err != nil {
		return nil, fmt.Errorf("there is no key %.80q in Secret %s", key, objectName(secret))
	}
	value, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("the key %.80q of Secret %s is not base64", key, objectName(secret))
	}
	return value, nil
}

// readCertificates returns a PEM bundle in base64. The location is no secret, so it must have nothing but certificates.
func (s *secretUses) readCertificates(ref secretRef) (string, error) {
	secret := s.findSecret(ref)
	if secret == nil {
		return "", fmt.Errorf("the input does not have Secret %s", ref)
	}
	bundle, err := secretValue(secret, ref.Key)
	if err != nil {
		return "", err
	}
	var certificates []byte // without what is between them
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return "", fmt.Errorf("the key %.80q of Secret %s has more than certificates", ref.Key, ref)
		}
		certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	if len(certificates) == 0 {
		return "", fmt.Errorf("the key %.80q of Secret %s has no certificates", ref.Key, ref)
	}
	s.read[ref] = true
	return base64.StdEncoding.EncodeToString(certificates), nil
}

// convertCredentials returns the data of a converted Secret.
func convertCredentials(secret *unstructured.Unstructured, use secretUse) (map[string]any, error) {
	content, err := secretValue(secret, use.key)
	if err != nil {
		return nil, err
	}
	if use.isAWS {
		if _, err := awscredentials.ParseFile(content, use.profile); err != nil {
			return nil, fmt.Errorf("key %.80q of Secret %s: %w", use.key, objectName(secret), err)
		}
	}
	return map[string]any{use.targetKey(): base64.StdEncoding.EncodeToString(content)}, nil
}

// convertSecret converts a Secret to those that the locations need, and reports its keys. It never reports a value.
func (m *migration) convertSecret(input Input) Conversion {
	l, name := newLedger(input.Object.Object), objectName(input.Object)
	result := Conversion{Input: input}
	usedKeys := map[string]bool{}
	for _, use := range m.secrets.uses[name] {
		usedKeys[use.key] = true
		data, err := convertCredentials(input.Object, use)
		if err == nil && m.IncludeSecrets {
			result.Objects = append(result.Objects, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": kindSecret, "type": "Opaque", "data": data,
				"metadata": map[string]any{"namespace": m.Namespace, "name": use.name},
			}})
		}
	}
	for ref := range m.secrets.read {
		if ref.String() == name {
			usedKeys[ref.Key] = true
		}
	}
	if len(usedKeys) == 0 {
		l.decideAll(OutcomeLost, "")
		result.Reason, result.Fields = "no location uses it", l.listFields()
		return result
	}
	note := "a location uses it, see there; the value is not printed"
	if m.IncludeSecrets {
		note = "the converted Secrets have what the locations use of it"
	}
	for key := range usedKeys {
		for _, field := range []string{"data", "stringData"} {
			l.decideField(joinPath(field, key), OutcomeChanged, note)
		}
	}
	for path := range l.leaves {
		if isWithin(path, "data") || isWithin(path, "stringData") {
			l.decideField(path, OutcomeLost, "no location uses it")
		}
		l.decideField(path, OutcomeChanged, "the converted Secret has its own metadata")
	}
	result.Fields = l.listFields()
	return result
}

// SecretNames returns the names of the Secrets that locations use, sorted.
func SecretNames(inputs []Input) []string {
	names := map[string]bool{}
	for _, input := range inputs {
		if input.Object.GetKind() != kindLocation {
			continue
		}
		l := newLedger(input.Object.Object)
		for _, field := range []string{"spec.credential.name", storageField + ".caCertRef.name"} {
			names[l.fieldText(field)] = true
		}
		if isUnset(l.fieldValue("spec.credential")) {
			names[defaultCredential.Name] = true
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}
