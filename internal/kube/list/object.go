// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// span is a part of a scanned value.
type span struct{ start, end int }

func (s span) of(raw []byte) []byte { return raw[s.start:s.end] }

// object is what the scan of an object finds: the few fields that decide about
// it. The spans are places in the scanned bytes; an absent field is empty.
type object struct {
	namespace, name span
	labels          span
	deleting        bool
	// typed says that the object has its apiVersion and kind.
	typed bool
	// spaced says that there is white space between the tokens.
	spaced bool
}

// scanObject looks for the few fields of an object that decide about it,
// without decoding anything else. raw must be one valid JSON object; it is what
// a jsontext.Decoder returned. Strings, nearly all of an object, are passed
// over at the speed of a search for quotes. It stops behind the metadata unless
// full is set: apiVersion and kind come before it in every list whose first
// item has them at all.
func scanObject(raw []byte, full bool) object {
	var found object
	types := 0
	eachField(raw, 0, &found.spaced, func(key []byte, value span) bool {
		switch string(key) {
		case "apiVersion", "kind":
			types++
		case "metadata":
			found.metadata(raw[:value.end], value.start)
			return full
		}
		return true
	})
	found.typed = types == 2
	return found
}

// metadata looks at the metadata, which starts at pos.
func (o *object) metadata(raw []byte, pos int) {
	if raw[pos] != '{' {
		return
	}
	eachField(raw, pos, &o.spaced, func(key []byte, value span) bool {
		first := raw[value.start]
		switch string(key) {
		case "name":
			o.name = value
		case "namespace":
			o.namespace = value
		case "labels":
			if first == '{' && value.end-value.start > len("{}") {
				o.labels = value
			}
		case "deletionTimestamp":
			o.deleting = first == '"'
		}
		return true
	})
}

// eachField calls visit with the fields of the object that starts at pos,
// until visit returns false.
func eachField(raw []byte, pos int, spaced *bool, visit func(key []byte, value span) bool) {
	skip := func(pos int) int {
		next := skipSpace(raw, pos)
		if next != pos {
			*spaced = true
		}
		return next
	}
	for pos = skip(pos + 1); pos < len(raw) && raw[pos] == '"'; pos = skip(pos) {
		keyEnd := skipString(raw, pos)
		key := raw[pos+1 : keyEnd-1]
		start := skip(skip(keyEnd) + len(":"))
		end := skipValue(raw, start)
		if !visit(key, span{start, end}) {
			return
		}
		if pos = skip(end); pos < len(raw) && raw[pos] == ',' {
			pos++
		}
	}
}

// appendText appends the text of a JSON string to b; nothing for null or a
// missing value.
func appendText(b, raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return b, nil
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return append(b, inner...), nil
	}
	return jsontext.AppendUnquote(b, raw)
}

// skipSpace returns the position of the first byte that is no white space.
func skipSpace(raw []byte, pos int) int {
	for pos < len(raw) && (raw[pos] == ' ' || raw[pos] == '\n' || raw[pos] == '\t' || raw[pos] == '\r') {
		pos++
	}
	return pos
}

// skipString returns the position behind the string that starts at pos.
func skipString(raw []byte, pos int) int {
	start := pos
	for pos++; pos < len(raw); {
		quote := bytes.IndexByte(raw[pos:], '"')
		if quote < 0 {
			break
		}
		pos += quote + 1
		backslashes := 0
		for i := pos - 2; i > start && raw[i] == '\\'; i-- {
			backslashes++
		}
		if backslashes%2 == 0 {
			return pos
		}
	}
	return len(raw)
}

// skipValue returns the position behind the value that starts at pos.
func skipValue(raw []byte, pos int) int {
	depth := 0
	for pos < len(raw) {
		switch raw[pos] {
		case '"':
			pos = skipString(raw, pos)
			if depth == 0 {
				return pos
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return pos + 1
			}
			if depth < 0 {
				return pos
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return pos
			}
		}
		pos++
	}
	return len(raw)
}
