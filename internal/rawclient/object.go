// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// span is a part of a scanned value.
type span struct{ start, end int }

func (s span) sliceFrom(raw []byte) []byte { return raw[s.start:s.end] }

// scannedObject has the few relevant fields of a scanned object. The spans are positions
// in the scanned bytes; an absent field is empty.
type scannedObject struct {
	namespace, name span
	labels          span
	deleting        bool
	// hasTypeMeta means that the object contains its apiVersion and kind.
	hasTypeMeta bool
	// hasWhitespace means that there is whitespace between the tokens.
	hasWhitespace bool
}

// scanObjectFields finds the relevant fields of an object, without decoding anything else. raw
// begins with an object. If the object is truncated or not valid JSON, it finds as many fields as
// possible. Strings, which are most of an object, are skipped at the speed of a search for quotes.
// It stops after the metadata unless full is set: apiVersion and kind precede the metadata in every
// list whose first item has them.
func scanObjectFields(raw []byte, full bool) scannedObject {
	var found scannedObject
	types := 0
	forEachField(raw, 0, &found.hasWhitespace, func(key []byte, value span) bool {
		switch string(key) {
		case "apiVersion", "kind":
			types++
		case "metadata":
			found.scanMetadata(raw[:value.end], value.start)
			return full
		}
		return true
	})
	found.hasTypeMeta = types == 2
	return found
}

// scanMetadata scans the metadata, which starts at pos.
func (o *scannedObject) scanMetadata(raw []byte, pos int) {
	if raw[pos] != '{' {
		return
	}
	forEachField(raw, pos, &o.hasWhitespace, func(key []byte, value span) bool {
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

// forEachField calls visit with the fields of the object that starts at pos,
// until visit returns false.
func forEachField(raw []byte, pos int, spaced *bool, visit func(key []byte, value span) bool) {
	skip := func(pos int) int {
		next := skipWhitespace(raw, pos)
		if next != pos {
			*spaced = true
		}
		return next
	}
	for pos = skip(pos + 1); pos < len(raw) && raw[pos] == '"'; pos = skip(pos) {
		keyEnd := skipJSONString(raw, pos)
		if keyEnd == len(raw) {
			return // truncated
		}
		key := raw[pos+1 : keyEnd-1]
		start := skip(skip(keyEnd) + len(":"))
		if start >= len(raw) {
			return
		}
		end := skipJSONValue(raw, start)
		if end == start || end == len(raw) && raw[start] != '{' {
			return
		}
		if !visit(key, span{start, end}) {
			return
		}
		if pos = skip(end); pos < len(raw) && raw[pos] == ',' {
			pos++
		}
	}
}

// appendUnquoted appends the text of a JSON string to b; nothing for null or a
// missing value.
func appendUnquoted(b, raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return b, nil
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return append(b, inner...), nil
	}
	return jsontext.AppendUnquote(b, raw)
}

// skipWhitespace returns the position of the first byte that is not whitespace.
func skipWhitespace(raw []byte, pos int) int {
	for pos < len(raw) && (raw[pos] == ' ' || raw[pos] == '\n' || raw[pos] == '\t' || raw[pos] == '\r') {
		pos++
	}
	return pos
}

// skipJSONString returns the position after the string that starts at pos.
func skipJSONString(raw []byte, pos int) int {
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

// skipJSONValue returns the position after the value that starts at pos.
func skipJSONValue(raw []byte, pos int) int {
	depth := 0
	for pos < len(raw) {
		switch raw[pos] {
		case '"':
			pos = skipJSONString(raw, pos)
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
