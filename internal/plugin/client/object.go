// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// Identity is what an action must not change. An empty APIVersion or Kind may change.
type Identity struct {
	APIVersion, Kind string
	Namespace, Name  string
}

// objectHeader is the part of an object that is validated.
type objectHeader struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace   string                    `json:"namespace"`
		Name        string                    `json:"name"`
		Annotations map[string]jsontext.Value `json:"annotations"`
	} `json:"metadata"`
}

// ParseIdentity returns the Identity of an object as JSON.
func ParseIdentity(object []byte) (Identity, error) {
	h, err := parseObjectHeader(object)
	return h.toIdentity(), err
}

func parseObjectHeader(object []byte) (objectHeader, error) {
	var h objectHeader
	if err := json.Unmarshal(object, &h); err != nil {
		return objectHeader{}, fmt.Errorf("reading the object: %w", err)
	}
	return h, nil
}

func (h objectHeader) toIdentity() Identity {
	return Identity{APIVersion: h.APIVersion, Kind: h.Kind, Namespace: h.Metadata.Namespace, Name: h.Metadata.Name}
}

// ValidateReturnedObject checks that an action returned the object that it was given: one
// JSON object of at most item.MaxBytes with that Identity. It returns the object without
// white space. The error describes the returned value.
func ValidateReturnedObject(returned []byte, want Identity) ([]byte, error) {
	if len(returned) > item.MaxBytes {
		return nil, fmt.Errorf("returned an object of %d bytes; at most %d are allowed", len(returned), item.MaxBytes)
	}
	value := jsontext.Value(returned)
	if value.Kind() != jsontext.KindBeginObject {
		return nil, errors.New("returned something that is not a JSON object")
	}
	if err := value.Compact(); err != nil {
		return nil, fmt.Errorf("returned something that is not a JSON object: %w", err)
	}
	h, err := parseObjectHeader(value)
	if err != nil {
		return nil, fmt.Errorf("returned something that is not a Kubernetes object: %w", err)
	}
	return value, h.toIdentity().compareIdentity(want)
}

// compareIdentity returns an error that names the first difference.
func (i Identity) compareIdentity(want Identity) error {
	if i.Namespace != want.Namespace || i.Name != want.Name {
		return fmt.Errorf("returned another object: %q instead of %q", i.namespacedName(), want.namespacedName())
	}
	if want.APIVersion != "" && i.APIVersion != want.APIVersion {
		return fmt.Errorf("changed the apiVersion of the object to %q from %q, which is not allowed", i.APIVersion, want.APIVersion)
	}
	if want.Kind != "" && i.Kind != want.Kind {
		return fmt.Errorf("changed the kind of the object to %q from %q, which is not allowed", i.Kind, want.Kind)
	}
	return nil
}

func (i Identity) namespacedName() string {
	if i.Namespace == "" {
		return i.Name
	}
	return i.Namespace + "/" + i.Name
}
