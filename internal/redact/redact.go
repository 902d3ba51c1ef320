// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// MinValueLength is the length in bytes from which an exact value is removed.
// Shorter ones would tear holes into ordinary words.
const MinValueLength = 6

// Redactor removes secrets from text. It is safe for concurrent use.
// Use New; a nil Redactor returns every text unchanged.
type Redactor struct {
	patterns  []pattern
	sensitive *regexp.Regexp

	mu       sync.Mutex
	values   map[string]struct{}
	replacer atomic.Pointer[strings.Replacer]
}

// New returns a Redactor that knows all shapes of secrets and the exact values
// given here.
func New(values ...string) *Redactor {
	r := &Redactor{patterns: patterns(), sensitive: sensitiveKey(), values: map[string]struct{}{}}
	r.AddValues(values...)
	return r
}

// AddValues makes exact values secrets from now on, also where they appear
// escaped in JSON or a URL, or in base64, and each line of a value that has
// several, because a log is redacted line by line. What is shorter than
// MinValueLength is left out. A value is never forgotten: a line that holds it
// may arrive long after it was changed.
func (r *Redactor) AddValues(values ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.values)
	for _, v := range values {
		if len(v) < MinValueLength {
			continue
		}
		for _, form := range slices.Concat(formsOf(v), r.linesOf(v)) {
			r.values[form] = struct{}{}
		}
	}
	if len(r.values) == before {
		return
	}
	forms := make([]string, 0, len(r.values))
	for form := range r.values {
		forms = append(forms, form)
	}
	// Longest first: of two values of which one contains the other, the whole
	// longer one has to disappear.
	slices.SortFunc(forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, Mark)
	}
	r.replacer.Store(strings.NewReplacer(pairs...))
}

// formsOf returns the ways in which a value may be written.
func formsOf(v string) []string {
	forms := []string{v, url.QueryEscape(v), url.PathEscape(v), base64.StdEncoding.EncodeToString([]byte(v))}
	if quoted, err := json.Marshal(v); err == nil {
		forms = append(forms, strings.Trim(string(quoted), `"`))
	}
	if trimmed := strings.TrimSpace(v); len(trimmed) >= MinValueLength {
		forms = append(forms, trimmed)
	}
	return slices.DeleteFunc(forms, func(form string) bool { return len(form) < MinValueLength })
}

// linesOf returns the lines of a value that has several, as far as each is a secret of its own.
func (r *Redactor) linesOf(v string) []string {
	if !strings.ContainsAny(v, "\r\n") {
		return nil
	}
	var lines []string
	for _, line := range strings.FieldsFunc(v, func(c rune) bool { return c == '\r' || c == '\n' }) {
		if line = strings.TrimSpace(line); len(line) >= MinValueLength && !r.introduces(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// introduces says whether a line is what others recognise a secret by that stands behind it:
// "password=", the first line of a key. If it disappeared from all texts, those of other
// secrets would be shown.
func (r *Redactor) introduces(line string) bool {
	if strings.Contains(line, keyBegin) || strings.Contains(line, keyEnd) {
		return true
	}
	const behind = "aB3dE6gH"
	return r.shapes(line) == line &&
		(!strings.Contains(r.shapes(line+behind), behind) || !strings.Contains(r.shapes(line+" "+behind), behind))
}

// String returns s with every secret replaced by Mark.
func (r *Redactor) String(s string) string {
	if r == nil || s == "" {
		return s
	}
	if replacer := r.replacer.Load(); replacer != nil {
		s = replacer.Replace(s)
	}
	return r.shapes(s)
}

// shapes returns s without what has the shape of a secret.
func (r *Redactor) shapes(s string) string {
	// Replacements only take text away, so one look at the words is enough.
	lower := strings.ToLower(s)
	for _, p := range r.patterns {
		if !p.applies(lower) {
			continue
		}
		s = p.expr.ReplaceAllString(s, p.with)
	}
	return s
}

// Pair returns the value of a key/value pair as it may be shown: Mark if the key
// says that it is a secret, else what String returns.
func (r *Redactor) Pair(key, value string) string {
	if r == nil {
		return value
	}
	if r.IsSensitive(key) {
		return Mark
	}
	return r.String(value)
}

// IsSensitive reports whether the value that belongs to key is a secret, going
// by the key's name alone: "DB_PASSWORD", "apiKey".
func (r *Redactor) IsSensitive(key string) bool {
	return r != nil && r.sensitive.MatchString(key)
}

// Stream redacts text that arrives line by line, as one log does. Other than
// String it recognises a private key over several lines. It is for one
// goroutine.
type Stream struct {
	redactor *Redactor
	// inKey counts the lines since the beginning of a private key; 0 outside.
	inKey int
}

const (
	// maxKeyLines ends a private key whose last line never came.
	maxKeyLines = 200
	keyBegin    = "-----BEGIN "
	keyEnd      = "-----END "
	keyWords    = "PRIVATE KEY"
)

// NewStream returns a Stream for one sequence of lines.
func (r *Redactor) NewStream() *Stream {
	return &Stream{redactor: r}
}

// Line returns the next line redacted, and false if nothing of it may be shown.
func (s *Stream) Line(line string) (string, bool) {
	if s.inKey > 0 {
		s.inKey++
		if strings.Contains(line, keyEnd) || s.inKey > maxKeyLines {
			s.inKey = 0
		}
		return "", false
	}
	if begin := strings.LastIndex(line, keyBegin); begin >= 0 &&
		strings.Contains(line[begin:], keyWords) && !strings.Contains(line[begin:], keyEnd) {
		s.inKey = 1
	}
	return s.redactor.String(line), true
}
