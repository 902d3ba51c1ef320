// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package glob compiles the patterns of names that users write.
package glob

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

const maxLength = 253

var errUnexpectedEnd = errors.New("unexpected end of input")

// Glob is a compiled pattern. It is safe for concurrent use.
type Glob struct{ expression *regexp.Regexp }

// Match reports whether the whole name matches, in time proportional to the lengths of the name and the pattern.
func (g Glob) Match(name string) bool { return g.expression.MatchString(name) }

// Compile compiles a pattern in the syntax of github.com/gobwas/glob, which Velero uses: *, ?, [abc], [!abc], [a-z],
// {a,b} and \. The separators are what * and ? do not match; ** matches them, too. That library takes exponential time
// for some patterns, and panics for others, so each pattern becomes a regular expression.
func Compile(pattern string, separators ...rune) (Glob, error) {
	if pattern == "" || len(pattern) > maxLength {
		return Glob{}, fmt.Errorf("it has %d bytes; a pattern has 1 to %d", len(pattern), maxLength)
	}
	expression, err := translate([]rune(pattern), newAnyCharacter(separators))
	if err != nil {
		return Glob{}, err
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return Glob{}, fmt.Errorf("compiling it: %w", err)
	}
	return Glob{compiled}, nil
}

// newAnyCharacter returns an expression for each character but the separators.
func newAnyCharacter(separators []rune) string {
	if len(separators) == 0 {
		return "."
	}
	return newCharacterClass("^", separators)
}

// newCharacterClass escapes each character, because a class has other special ones than the rest of an expression.
func newCharacterClass(negation string, characters []rune) string {
	var class strings.Builder
	for _, character := range characters {
		fmt.Fprintf(&class, `\x{%x}`, character)
	}
	return "[" + negation + class.String() + "]"
}

// translate returns a regular expression for a pattern.
func translate(pattern []rune, anyCharacter string) (string, error) {
	var expression strings.Builder
	expression.WriteString(`(?s)\A`)
	depth := 0
	for i := 0; i < len(pattern); i++ {
		switch character := pattern[i]; {
		case character == '\\':
			i++
			if i == len(pattern) {
				return "", errUnexpectedEnd
			}
			expression.WriteString(regexp.QuoteMeta(string(pattern[i])))
		case character == '*':
			stars, length := translateStars(pattern[i:], anyCharacter)
			expression.WriteString(stars)
			i += length - 1
		case character == '?':
			expression.WriteString(anyCharacter)
		case character == '[':
			class, length, err := translateClass(pattern[i+1:])
			if err != nil {
				return "", err
			}
			expression.WriteString(class)
			i += length
		case character == '{':
			depth++
			expression.WriteString("(?:")
		case character == ',' && depth > 0:
			expression.WriteString("|")
		case character == '}' && depth > 0:
			depth--
			expression.WriteString(")")
		default:
			expression.WriteString(regexp.QuoteMeta(string(character)))
		}
	}
	// As in that library, a brace may lack its end.
	return expression.String() + strings.Repeat(")", depth) + `\z`, nil
}

// translateStars returns an expression for the one or two * at the beginning of a pattern, and how many these are.
func translateStars(pattern []rune, anyCharacter string) (expression string, length int) {
	if len(pattern) > 1 && pattern[1] == '*' {
		return ".*", 2
	}
	return anyCharacter + "*", 1
}

// translateClass returns an expression for what follows [ in a pattern, and how much that is.
func translateClass(rest []rune) (class string, length int, err error) {
	negation, characters := "", rest
	if len(characters) > 0 && characters[0] == '!' {
		negation, characters = "^", characters[1:]
	}
	end := strings.IndexRune(string(characters), ']')
	if end < 0 {
		return "", 0, errUnexpectedEnd
	}
	length = len(rest) - len(characters)
	characters = []rune(string(characters)[:end])
	length += len(characters) + 1
	switch {
	case len(characters) == 0:
		return "", 0, errors.New("[] has no characters")
	case len(characters) > 1 && characters[1] == '-':
		if len(characters) != 3 || characters[0] > characters[2] {
			return "", 0, fmt.Errorf("[%s] is not a range such as [a-z]", string(characters))
		}
		return fmt.Sprintf(`[%s\x{%x}-\x{%x}]`, negation, characters[0], characters[2]), length, nil
	}
	return newCharacterClass(negation, characters), length, nil
}
