// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"regexp"
	"strings"
)

// Placeholder replaces a secret.
const Placeholder = "[REDACTED]"

// pattern is a pattern of secrets and its replacement.
type pattern struct {
	// hints are words in lower case. The text must contain one of them to match: searching
	// for them is many times faster than the expression, and log lines rarely contain them.
	hints       []string
	expr        *regexp.Regexp
	replacement string
}

const (
	// quoteExpr is an optional quotation mark, which may be escaped because the text is
	// JSON inside a JSON string.
	quoteExpr = `(?:\\*["'])?`
	// valueExpr is the value after "=" or ":" of a pair. The placeholder comes first:
	// redacting twice must not change anything.
	valueExpr = `(?:\[REDACTED\]|\\+"[^"\\]*\\+"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;&"'\\}\])]+)`
	// secretNamesExpr are the words that make the value of a pair a secret wherever they
	// occur in its key.
	secretNamesExpr = `passw(?:or)?d|passphrase|pwd|token|api[_-]?key|access[_-]?key|private[_-]?key|` +
		`account[_-]?key|client[_-]?secret|secret[_-]?(?:access|key|id|value|data|string)|` +
		`[a-z0-9]+[_-]secret|credential`
	keyCharsExpr = `[\w.-]*`
)

// secretPatterns returns all patterns, the ones that match most text first: a private key
// must be removed before another pattern is applied to one of its lines.
func secretPatterns() []pattern {
	words := []string{"passw", "passphrase", "pwd", "token", "key", "secret", "credential"}
	return []pattern{
		{
			hints:       []string{"private key"},
			expr:        regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|\z)`),
			replacement: Placeholder,
		},
		{
			hints:       []string{"authorization"},
			expr:        regexp.MustCompile(`(?i)\b((?:proxy-)?authorization` + quoteExpr + `\s*[:=]\s*` + quoteExpr + `)[^\s"'\\\[][^"'\\\r\n]*`),
			replacement: "${1}" + Placeholder,
		},
		{
			hints:       []string{"bearer"},
			expr:        regexp.MustCompile(`(?i)\b(bearer\s+)[A-Za-z0-9._~+/-]{6,}=*`),
			replacement: "${1}" + Placeholder,
		},
		{
			hints:       []string{"eyj"},
			expr:        regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)*`),
			replacement: Placeholder,
		},
		{
			hints:       []string{"://"},
			expr:        regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@"'<>]+@`),
			replacement: "${1}" + Placeholder + "@",
		},
		{
			hints:       []string{"sig", "x-amz-"},
			expr:        regexp.MustCompile(`(?i)\b(x-amz-(?:signature|security-token|credential)|sig|signature)=[^&\s"']+`),
			replacement: "${1}=" + Placeholder,
		},
		{
			hints:       []string{"akia", "asia", "aroa"},
			expr:        regexp.MustCompile(`\b(?:AKIA|ASIA|AROA)[0-9A-Z]{16}\b`),
			replacement: Placeholder,
		},
		{
			hints:       []string{"gh", "glpat-", "xox", "aiza"},
			expr:        regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AIza[\w-]{35})`),
			replacement: Placeholder,
		},
		{
			hints:       words,
			expr:        regexp.MustCompile(`(?i)(` + keyCharsExpr + `(?:` + secretNamesExpr + `)` + keyCharsExpr + quoteExpr + `\s*[:=]\s*)` + valueExpr),
			replacement: "${1}" + Placeholder,
		},
		{
			// "secret" alone is also the name of a kind: "reading secret: not found" must
			// stay readable, so only quoted keys and "=" count here.
			hints:       []string{"secret"},
			expr:        regexp.MustCompile(`(?i)(` + keyCharsExpr + `secret` + keyCharsExpr + `(?:\s*=|\\*["']\s*[:=])\s*)` + valueExpr),
			replacement: "${1}" + Placeholder,
		},
		{
			hints:       words,
			expr:        regexp.MustCompile(`(?i)((?:--?)(?:password|passwd|token|secret|api-?key)\s+)[^\s-]\S*`),
			replacement: "${1}" + Placeholder,
		},
	}
}

// canMatch reports whether the expression can match; lower is the text in lower case.
func (p pattern) canMatch(lower string) bool {
	for _, hint := range p.hints {
		if strings.Contains(lower, hint) {
			return true
		}
	}
	return false
}

// sensitiveKeyRegexp returns the expression for keys of key/value pairs whose value is
// a secret as a whole.
func sensitiveKeyRegexp() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:` + secretNamesExpr + `|secret$|^authorization$|kubeconfig)`)
}
