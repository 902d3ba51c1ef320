// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/text"
	"github.com/grapnel-dev/grapnel/sdk/proto"
)

const (
	// MaxLineBytes is the size to which readers should truncate a line, as in go-plugin.
	MaxLineBytes = 64 << 10
	// MaxTextBytes is the largest length in bytes of a message or value that is passed on.
	MaxTextBytes = 16 << 10
	// MaxFields is the largest number of fields of one line that is passed on.
	MaxFields = 32
)

// Record is one line of a plugin's log, redacted and cleaned.
type Record struct {
	// Level is in lower case; "" if the line has none.
	Level   string
	Message string
	// Fields are alternating keys and values, all strings.
	Fields []any
	// Key, CallID and EndedCallID are the fields of package sdk/proto: the idempotency key and ID of
	// the call that logged the line, and the ID of a call that ends with it. They are
	// unchanged.
	Key, CallID, EndedCallID string
	// Size is the size of the line in bytes.
	Size int
}

// LogTo logs the record. logr has no level for warnings, so they get a field.
func (r Record) LogTo(log logr.Logger) {
	switch r.Level {
	case "trace":
		log.V(2).Info(r.Message, r.Fields...)
	case "debug":
		log.V(1).Info(r.Message, r.Fields...)
	case "error":
		log.Error(nil, r.Message, r.Fields...)
	case "warn":
		log.Info(r.Message, append([]any{"severity", "warning"}, r.Fields...)...)
	default:
		log.Info(r.Message, r.Fields...)
	}
}

// Parser parses the log lines of plugins that run next to the operator, or at an address (package
// endpoint), to Records, redacted and without terminal control sequences.
//
// A line is a JSON object in the format of hclog, with the fields of package sdk/proto, or
// any text. Nothing in it is trusted: long values are truncated, secrets are replaced, and
// a line never becomes two.
type Parser struct {
	redactor *redact.Redactor
	stream   *redact.Stream
}

// NewParser returns a Parser for a new stream.
func NewParser(r *redact.Redactor) *Parser {
	return &Parser{redactor: r, stream: r.NewStream()}
}

// Parse returns the record of a line, and false if nothing of it may be shown. cut means
// that the end of the line is missing.
func (p *Parser) Parse(line []byte, cut bool) (Record, bool) {
	var object map[string]json.RawMessage
	if !cut && len(line) > 0 && line[0] == '{' && json.Unmarshal(line, &object) == nil {
		return p.parseStructured(object, len(line)), true
	}
	text, ok := p.stream.RedactLine(string(line))
	if !ok {
		return Record{}, false
	}
	level, text := parseLevelPrefix(SanitizeLine(text))
	if cut {
		text += "… (the rest of the line is dropped)"
	}
	return Record{Level: level, Message: text, Size: len(line)}, true
}

func (p *Parser) parseStructured(object map[string]json.RawMessage, size int) Record {
	tag := func(name string) string {
		var text string // it stays empty if the tag is not a string
		_ = json.Unmarshal(object[name], &text)
		return text
	}
	out := Record{
		Key: tag(proto.FieldKey), CallID: tag(proto.FieldCall), EndedCallID: tag(proto.FieldEnd), Size: size,
		Level: strings.ToLower(tag("@level")), Message: SanitizeLine(p.redactor.String(jsonToText(object["@message"]))),
	}
	for _, known := range []string{proto.FieldKey, proto.FieldCall, proto.FieldEnd, "@level", "@message", "@timestamp"} {
		delete(object, known)
	}
	names := slices.Sorted(maps.Keys(object))
	for _, name := range names[:min(len(names), MaxFields)] {
		// A leading @ marks the fields of the format itself ("@module").
		out.Fields = append(out.Fields, SanitizeLine(strings.TrimPrefix(name, "@")), SanitizeLine(p.redactor.RedactPair(name, jsonToText(object[name]))))
	}
	return out
}

// jsonToText returns a JSON value as text.
func jsonToText(raw json.RawMessage) string {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return *text
	}
	return string(raw)
}

// parseLevelPrefix recognizes the level prefix of unstructured lines.
func parseLevelPrefix(line string) (level, rest string) {
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

// SanitizeLine converts text to one line of printable characters and limited length: a plugin can
// neither forge lines nor send control codes to a terminal. Secrets must be replaced before.
func SanitizeLine(line string) string {
	line = text.Truncate(line, MaxTextBytes)
	line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\n", " | ")
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		default:
			return -1
		}
	}, line)
}
