// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// MinValueLength is the minimum length in bytes of exact values. Shorter values would match
// parts of ordinary words.
const MinValueLength = 6

// Redactor removes secrets from text. It is safe for concurrent use.
// Use New; a nil Redactor returns every text unchanged.
type Redactor struct {
	patterns  []pattern
	sensitive *regexp.Regexp

	mu sync.Mutex
	// values are the encoded forms of permanent values, recent those that are kept only
	// while they are among the most recent ones.
	values   map[string]struct{}
	recent   map[string]*recentValue
	addCount uint64
	replacer atomic.Pointer[strings.Replacer]
}

// New returns a Redactor with all patterns and the given exact values.
func New(values ...string) *Redactor {
	r := &Redactor{patterns: secretPatterns(), sensitive: sensitiveKeyRegexp(), values: map[string]struct{}{}, recent: map[string]*recentValue{}}
	r.AddValues(values...)
	return r
}

// AddValues registers exact values as secrets. The Redactor also removes them where they
// are escaped in JSON or a URL, or in base64. It removes each line of a value with several
// lines, because a log is redacted line by line. It ignores values shorter than
// MinValueLength. Values are kept forever: a line with an old value may arrive long after
// it was changed. For values that change all the time there is AddRecentValues.
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
		for _, form := range slices.Concat(encodedForms(v), r.secretLines(v)) {
			r.values[form] = struct{}{}
		}
	}
	if len(r.values) > before {
		r.rebuildReplacer()
	}
}

// recentValue is a value of AddRecentValues.
type recentValue struct {
	forms []string
	// lastAdded is when it was last added.
	lastAdded uint64
}

const (
	// maxRecent is how many values of AddRecentValues are kept, and maxRecentBytes the
	// total size of all their forms, if there are more than minRecent values.
	maxRecent, minRecent = 512, 64
	maxRecentBytes       = 16 << 20
)

// AddRecentValues is AddValues for values that change, such as tokens, and that the caller
// adds before each use. Only the most recent ones are kept, so the memory of a process that
// runs for years does not grow.
func (r *Redactor) AddRecentValues(values ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	added := false
	for _, v := range values {
		if len(v) < MinValueLength {
			continue
		}
		r.addCount++
		if known := r.recent[v]; known != nil {
			known.lastAdded = r.addCount
			continue
		}
		r.recent[v] = &recentValue{forms: slices.Concat(encodedForms(v), r.secretLines(v)), lastAdded: r.addCount}
		added = true
	}
	if added {
		r.evictOldestValues()
		r.rebuildReplacer()
	}
}

// evictOldestValues drops the least recently added values beyond the limits.
func (r *Redactor) evictOldestValues() {
	total := 0
	for _, v := range r.recent {
		for _, form := range v.forms {
			total += len(form)
		}
	}
	oldest := slices.SortedFunc(maps.Keys(r.recent), func(a, b string) int { return cmp.Compare(r.recent[a].lastAdded, r.recent[b].lastAdded) })
	for _, v := range oldest {
		if n := len(r.recent); n <= minRecent || (n <= maxRecent && total <= maxRecentBytes) {
			return
		}
		for _, form := range r.recent[v].forms {
			total -= len(form)
		}
		delete(r.recent, v)
	}
}

// rebuildReplacer creates the replacer for all registered values.
func (r *Redactor) rebuildReplacer() {
	all := maps.Clone(r.values)
	for _, v := range r.recent {
		for _, form := range v.forms {
			all[form] = struct{}{}
		}
	}
	forms := slices.Collect(maps.Keys(all))
	// Longest first: if one value contains another, the whole longer one must be removed.
	slices.SortFunc(forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, Placeholder)
	}
	r.replacer.Store(strings.NewReplacer(pairs...))
}

// encodedForms returns the encodings in which a value may occur.
func encodedForms(v string) []string {
	forms := []string{v, url.QueryEscape(v), url.PathEscape(v), base64.StdEncoding.EncodeToString([]byte(v))}
	if quoted, err := json.Marshal(v); err == nil {
		forms = append(forms, strings.Trim(string(quoted), `"`))
	}
	if trimmed := strings.TrimSpace(v); len(trimmed) >= MinValueLength {
		forms = append(forms, trimmed)
	}
	return slices.DeleteFunc(forms, func(form string) bool { return len(form) < MinValueLength })
}

// secretLines returns the lines of a multi-line value that are secrets on their own.
func (r *Redactor) secretLines(v string) []string {
	if !strings.ContainsAny(v, "\r\n") {
		return nil
	}
	var lines []string
	for _, line := range strings.FieldsFunc(v, func(c rune) bool { return c == '\r' || c == '\n' }) {
		if line = strings.TrimSpace(line); len(line) >= MinValueLength && !r.isSecretPrefix(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// isSecretPrefix reports whether a line is what marks the text after it as a secret:
// "password=", or the first line of a key. If the Redactor removed it everywhere, the
// patterns would no longer find other secrets.
func (r *Redactor) isSecretPrefix(line string) bool {
	if strings.Contains(line, keyBegin) || strings.Contains(line, keyEnd) {
		return true
	}
	const behind = "aB3dE6gH"
	return r.redactPatterns(line) == line &&
		(!strings.Contains(r.redactPatterns(line+behind), behind) || !strings.Contains(r.redactPatterns(line+" "+behind), behind))
}

// String returns s with every secret replaced by Placeholder.
func (r *Redactor) String(s string) string {
	if r == nil || s == "" {
		return s
	}
	if replacer := r.replacer.Load(); replacer != nil {
		s = replacer.Replace(s)
	}
	return r.redactPatterns(s)
}

// redactPatterns returns s without text that matches a pattern.
func (r *Redactor) redactPatterns(s string) string {
	// Replacements only remove text, so one check of the hints is enough.
	lower := strings.ToLower(s)
	for _, p := range r.patterns {
		if !p.canMatch(lower) {
			continue
		}
		s = p.expr.ReplaceAllString(s, p.replacement)
	}
	return s
}

// RedactPair returns the redacted value of a key/value pair: Placeholder if the key marks
// it as a secret, otherwise the result of String.
func (r *Redactor) RedactPair(key, value string) string {
	if r == nil {
		return value
	}
	if r.IsSensitive(key) {
		return Placeholder
	}
	return r.String(value)
}

// IsSensitive reports whether the value of key is a secret, based only on the name of the
// key: "DB_PASSWORD", "apiKey".
func (r *Redactor) IsSensitive(key string) bool {
	return r != nil && r.sensitive.MatchString(key)
}

// Stream redacts text that arrives line by line, such as one log. Unlike String, it
// recognizes a private key that spans several lines. It is for one goroutine.
type Stream struct {
	redactor *Redactor
	// inKey counts the lines since the beginning of a private key; 0 outside of keys.
	inKey int
}

const (
	// maxKeyLines ends a private key without a last line.
	maxKeyLines = 200
	keyBegin    = "-----BEGIN "
	keyEnd      = "-----END "
	keyWords    = "PRIVATE KEY"
)

// NewStream returns a Stream for one sequence of lines.
func (r *Redactor) NewStream() *Stream {
	return &Stream{redactor: r}
}

// RedactLine returns the next line redacted, and false if the whole line must be hidden.
func (s *Stream) RedactLine(line string) (string, bool) {
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
