// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TakeAnnotations takes annotations in which an action talks to Grapnel out of an
// object that it returned, which CheckObject passed. It returns the object without them
// and their values. What the action was given tells whether an annotation is the
// action's: one that was in the cluster already, and has not changed, is left alone,
// because the owner of the object has no say here. Changed is what says something else,
// and not what another encoder wrote.
func TakeAnnotations(given, returned []byte, keys ...string) ([]byte, map[string]string, error) {
	after, err := headerOf(returned)
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(keys, func(key string) bool { return after.Metadata.Annotations[key] != nil }) {
		return returned, nil, nil
	}
	before, err := headerOf(given)
	if err != nil {
		return nil, nil, err
	}
	taken := map[string]string{}
	for _, key := range keys {
		raw := after.Metadata.Annotations[key]
		if raw == nil {
			continue
		}
		if had := before.Metadata.Annotations[key]; had != nil && text(raw) == text(had) {
			continue
		}
		path := []string{"metadata", "annotations", key}
		if len(after.Metadata.Annotations) == 1 && before.Metadata.Annotations == nil {
			path = path[:2] // as it was
		}
		if returned, err = without(returned, path); err != nil {
			return nil, nil, fmt.Errorf("taking the annotation %s from the object: %w", key, err)
		}
		delete(after.Metadata.Annotations, key)
		taken[key] = text(raw)
	}
	return returned, taken, nil
}

// text returns the value of an annotation; one that is no string is as good as text.
func text(raw jsontext.Value) string {
	var out string
	if err := json.Unmarshal(raw, &out); err != nil {
		return string(raw)
	}
	return out
}

// errNoMember means that an object does not have the member.
var errNoMember = errors.New("no such member")

// without returns an object, as JSON without white space, without one member of it.
// All other bytes stay the same.
func without(object []byte, path []string) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object))
	for {
		if _, err := dec.ReadToken(); err != nil { // the brace
			return nil, err
		}
		start, err := seek(dec, path[0])
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
			end++ // the first member takes the comma behind it along
		}
		return slices.Concat(object[:start], object[end:]), nil
	}
}

// seek reads up to the value of a member of the object that dec is in, and returns
// where the member begins, with the comma before it.
func seek(dec *jsontext.Decoder, name string) (start int64, err error) {
	for {
		start = dec.InputOffset()
		token, err := dec.ReadToken()
		if err != nil {
			return 0, err
		}
		if token.Kind() == jsontext.KindEndObject {
			return 0, errNoMember
		}
		if token.String() == name {
			return start, nil
		}
		if err := dec.SkipValue(); err != nil {
			return 0, err
		}
	}
}
