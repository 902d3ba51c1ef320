// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/proto"
)

const (
	// maxText is the largest length of a message or value that is passed on.
	maxText = 16 << 10
	// maxFields is the largest number of fields of one line that is passed on.
	maxFields = 32
)

// record is one line of a plugin's log, redacted and cleaned.
type record struct {
	level   string
	message string
	fields  []any
	// key, call and end are the fields of package sdk/proto.
	key, call, end string
	size           int
}

// parser turns lines into records. It is for one goroutine per stream.
type parser struct {
	redactor *redact.Redactor
	stream   *redact.Stream
}

func newParser(r *redact.Redactor) *parser {
	return &parser{redactor: r, stream: r.NewStream()}
}

// parse returns the record of a line, and false if nothing of it may be shown.
func (p *parser) parse(line []byte, cut bool) (record, bool) {
	var object map[string]any
	if !cut && len(line) > 0 && line[0] == '{' && json.Unmarshal(line, &object) == nil {
		return p.structured(object, len(line)), true
	}
	text, ok := p.stream.Line(string(line))
	if !ok {
		return record{}, false
	}
	level, text := levelOf(clean(text))
	if cut {
		text += "… (the rest of the line is dropped)"
	}
	return record{level: level, message: text, size: len(line)}, true
}

func (p *parser) structured(object map[string]any, size int) record {
	take := func(name string) string {
		text, _ := object[name].(string)
		delete(object, name)
		return text
	}
	out := record{
		key: take(proto.FieldKey), call: take(proto.FieldCall), end: take(proto.FieldEnd),
		level: strings.ToLower(take("@level")), message: clean(p.redactor.String(take("@message"))), size: size,
	}
	delete(object, "@timestamp")
	names := slices.Sorted(maps.Keys(object))
	for _, name := range names[:min(len(names), maxFields)] {
		// An @ in front marks the fields of the format itself ("@module").
		out.fields = append(out.fields, clean(strings.TrimPrefix(name, "@")), clean(p.redactor.Pair(name, text(object[name]))))
	}
	return out
}

// text returns a decoded JSON value as text.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	if encoded, err := json.Marshal(v); err == nil {
		return string(encoded)
	}
	return fmt.Sprint(v)
}

// levelOf recognises how lines without structure say their level.
func levelOf(line string) (level, rest string) {
	for _, level := range []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR"} {
		if rest, ok := strings.CutPrefix(line, "["+level+"]"); ok {
			return strings.ToLower(level), strings.TrimSpace(rest)
		}
	}
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
		return "error", line
	}
	return "info", line
}

// clean brings text to one line of printable characters and limited length, so
// that a plugin can neither forge lines nor send codes to a terminal.
func clean(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\n", " | ")
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		default:
			return -1
		}
	}, text)
}

// write logs the record. logr knows no level for warnings, so they carry a field.
func (r record) write(log logr.Logger) {
	switch r.level {
	case "trace":
		log.V(2).Info(r.message, r.fields...)
	case "debug":
		log.V(1).Info(r.message, r.fields...)
	case "error":
		log.Error(nil, r.message, r.fields...)
	case "warn":
		log.Info(r.message, append([]any{"severity", "warning"}, r.fields...)...)
	default:
		log.Info(r.message, r.fields...)
	}
}
