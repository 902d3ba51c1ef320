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

// MinValueLength is the length in bytes from which an exact value is removed.
// Shorter ones would tear holes into ordinary words.
const MinValueLength = 6

// Redactor removes secrets from text. It is safe for concurrent use.
// Use New; a nil Redactor returns every text unchanged.
type Redactor struct {
	patterns  []pattern
	sensitive *regexp.Regexp

	mu sync.Mutex
	// values are forms of values that are kept, recent those that are kept as long as they
	// are among the last ones.
	values   map[string]struct{}
	recent   map[string]*recentValue
	addCount uint64
	replacer atomic.Pointer[strings.Replacer]
}

// New returns a Redactor that knows all shapes of secrets and the exact values
// given here.
func New(values ...string) *Redactor {
	r := &Redactor{patterns: secretPatterns(), sensitive: sensitiveKeyRegexp(), values: map[string]struct{}{}, recent: map[string]*recentValue{}}
	r.AddValues(values...)
	return r
}

// AddValues makes exact values secrets from now on, also where they appear
// escaped in JSON or a URL, or in base64, and each line of a value that has
// several, because a log is redacted line by line. What is shorter than
// MinValueLength is left out. A value is never forgotten: a line that holds it
// may arrive long after it was changed. For those that change all the time there is
// AddRecentValues.
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
	// lastAdded is when it was added last.
	lastAdded uint64
}

const (
	// maxRecent is how many values of AddRecentValues are kept, and maxRecentBytes how many
	// bytes they have in all forms, if that is more than minRecent values.
	maxRecent, minRecent = 512, 64
	maxRecentBytes       = 16 << 20
)

// AddRecentValues is AddValues for values that change, as tokens do, and that whoever uses
// them adds before each use: only those that were added last are kept, so that a process that
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

// evictOldestValues drops the values that were not added for longest, beyond the limits.
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

// rebuildReplacer makes the replacer of all values that are known.
func (r *Redactor) rebuildReplacer() {
	all := maps.Clone(r.values)
	for _, v := range r.recent {
		for _, form := range v.forms {
			all[form] = struct{}{}
		}
	}
	forms := slices.Collect(maps.Keys(all))
	// Longest first: of two values of which one contains the other, the whole
	// longer one has to disappear.
	slices.SortFunc(forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, Placeholder)
	}
	r.replacer.Store(strings.NewReplacer(pairs...))
}

// encodedForms returns the ways in which a value may be written.
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

// secretLines returns the lines of a value that has several, as far as each is a secret of its own.
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

// isSecretPrefix reports whether a line is what others recognize a secret by that stands behind it:
// "password=", the first line of a key. If it disappeared from all texts, those of other
// secrets would be shown.
func (r *Redactor) isSecretPrefix(line string) bool {
	if strings.Contains(line, keyBegin) || strings.Contains(line, keyEnd) {
		return true
	}
	const behind = "aB3dE6gH"
	return r.redactPatterns(line) == line &&
		(!strings.Contains(r.redactPatterns(line+behind), behind) || !strings.Contains(r.redactPatterns(line+" "+behind), behind))
}

// String returns s with every secret replaced by Mark.
func (r *Redactor) String(s string) string {
	if r == nil || s == "" {
		return s
	}
	if replacer := r.replacer.Load(); replacer != nil {
		s = replacer.Replace(s)
	}
	return r.redactPatterns(s)
}

// redactPatterns returns s without what has the shape of a secret.
func (r *Redactor) redactPatterns(s string) string {
	// Replacements only take text away, so one look at the words is enough.
	lower := strings.ToLower(s)
	for _, p := range r.patterns {
		if !p.canMatch(lower) {
			continue
		}
		s = p.expr.ReplaceAllString(s, p.replacement)
	}
	return s
}

// RedactPair returns the value of a key/value pair as it may be shown: Mark if the key
// says that it is a secret, else what String returns.
func (r *Redactor) RedactPair(key, value string) string {
	if r == nil {
		return value
	}
	if r.IsSensitive(key) {
		return Placeholder
	}
	return r.String(value)
}

// IsSensitive reports whether the value that belongs to key is a secret, going
// by the key's name alone: "DB_PASSWORD", "apiKey".
func (r *Redactor) IsSensitive(key string) bool {
	return r != nil && r.sensitive.MatchString(key)
}

// Stream redacts text that arrives line by line, as one log does. Other than
// String it recognizes a private key over several lines. It is for one
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

// RedactLine returns the next line redacted, and false if nothing of it may be shown.
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
