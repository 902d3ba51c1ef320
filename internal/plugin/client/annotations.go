// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ExtractAnnotations removes the annotations by which an action communicates with Grapnel
// from an object that it returned and that passed ValidateReturnedObject. It returns the
// object without them and their values. The given object shows whether an annotation is
// from the action: an annotation that was already in the cluster and is unchanged stays,
// because the owner of the object must not control this. A change means another value, not
// another encoding.
func ExtractAnnotations(given, returned []byte, keys ...string) ([]byte, map[string]string, error) {
	after, err := parseObjectHeader(returned)
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(keys, func(key string) bool { return after.Metadata.Annotations[key] != nil }) {
		return returned, nil, nil
	}
	before, err := parseObjectHeader(given)
	if err != nil {
		return nil, nil, err
	}
	taken := map[string]string{}
	for _, key := range keys {
		raw := after.Metadata.Annotations[key]
		if raw == nil {
			continue
		}
		if had := before.Metadata.Annotations[key]; had != nil && annotationText(raw) == annotationText(had) {
			continue
		}
		path := []string{"metadata", "annotations", key}
		if len(after.Metadata.Annotations) == 1 && before.Metadata.Annotations == nil {
			path = path[:2] // unchanged
		}
		if returned, err = removeMember(returned, path); err != nil {
			return nil, nil, fmt.Errorf("removing the annotation %s from the object: %w", key, err)
		}
		delete(after.Metadata.Annotations, key)
		taken[key] = annotationText(raw)
	}
	return returned, taken, nil
}

// annotationText returns the value of an annotation. A value that is not a string is
// returned as text.
func annotationText(raw jsontext.Value) string {
	var out string
	if err := json.Unmarshal(raw, &out); err != nil {
		return string(raw)
	}
	return out
}

// errMemberNotFound means that an object does not have the member.
var errMemberNotFound = errors.New("no such member")

// removeMember returns an object, as JSON without white space, without one of its members.
// All other bytes are unchanged.
func removeMember(object []byte, path []string) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object))
	for {
		if _, err := dec.ReadToken(); err != nil { // the brace
			return nil, err
		}
		start, err := seekMember(dec, path[0])
		if err != nil {
			return nil, err
		}
		if path = path[1:]; len(path) > 0 {
			continue
		}
		if err := dec.SkipValue(); err != nil {
			return nil, err
		}
		end := dec.InputOffset()
		if object[start] != ',' && object[end] == ',' {
			end++ // with the first member, remove the comma after it
		}
		return slices.Concat(object[:start], object[end:]), nil
	}
}

// seekMember reads up to the value of a member of the current object of dec, and returns
// where the member begins, including the comma before it.
func seekMember(dec *jsontext.Decoder, name string) (start int64, err error) {
	for {
		start = dec.InputOffset()
		token, err := dec.ReadToken()
		if err != nil {
			return 0, err
		}
		if token.Kind() == jsontext.KindEndObject {
			return 0, errMemberNotFound
		}
		if token.String() == name {
			return start, nil
		}
		if err := dec.SkipValue(); err != nil {
			return 0, err
		}
	}
}
