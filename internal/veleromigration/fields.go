// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package veleromigration

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// zeroDuration is how Velero's types encode a duration that is not set.
const zeroDuration = "0s"

// Outcome is what became of a field.
type Outcome string

// The outcomes.
const (
	// OutcomeKept means that the converted object has the same value, perhaps in another field, or that the field
	// was not set.
	OutcomeKept Outcome = "kept"
	// OutcomeChanged means that the value or its meaning differs, and nothing is missing.
	OutcomeChanged Outcome = "changed"
	// OutcomeLost means that the converted object lacks it.
	OutcomeLost Outcome = "lost"
)

// Field is what became of a field of an object.
type Field struct {
	// Path of the field, for example spec.includedNamespaces[0]. It has no value below it.
	Path string
	// Rule is the field or the parent of it that was decided on, for example spec.includedNamespaces.
	Rule    string
	Outcome Outcome
	// Target is the path in the converted object of the value, or of what the value was changed to; empty if there is none.
	Target string
	// Note says why the field is changed or lost, and what to do.
	Note string
	// IsAdded means that the object does not have the field, but the converted one does.
	IsAdded bool
}

// Conversion is what became of an object.
type Conversion struct {
	Input
	// Objects are what the object was converted to; none if it was not converted.
	Objects []*unstructured.Unstructured
	// Fields has each field of the object exactly once, and the added ones, in the order of their paths.
	Fields []Field
	// Reason says why the object was not converted.
	Reason string
}

// Outcomes returns how many fields have each outcome.
func (c *Conversion) Outcomes() map[Outcome]int {
	counts := map[Outcome]int{}
	for i := range c.Fields {
		counts[c.Fields[i].Outcome]++
	}
	return counts
}

// HasLost reports whether a field is lost.
func (c *Conversion) HasLost() bool { return c.Outcomes()[OutcomeLost] > 0 }

// ledger records what becomes of the fields of an object while it is converted.
type ledger struct {
	source, target map[string]any
	// leaves are the fields without fields below them, by their paths.
	leaves  map[string]any
	decided map[string]Field
	added   []Field
}

func newLedger(source map[string]any) *ledger {
	l := &ledger{source: source, target: map[string]any{}, leaves: map[string]any{}, decided: map[string]Field{}}
	collectLeaves("", source, l.leaves)
	return l
}

// collectLeaves collects the values without values below them.
func collectLeaves(path string, value any, leaves map[string]any) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			collectLeaves(joinPath(path, key), below, leaves)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, below := range v {
			collectLeaves(fmt.Sprintf("%s[%d]", path, i), below, leaves)
		}
		if len(v) > 0 {
			return
		}
	}
	if path != "" {
		leaves[path] = value
	}
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// joinPath appends a key to a path. A key with other characters than those of fields is quoted.
func joinPath(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + strconv.QuoteToASCII(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// isWithin reports whether a path is a field or below it.
func isWithin(path, field string) bool {
	rest, found := strings.CutPrefix(path, field)
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// decideField records the outcome of a field, and of all below it, unless it was decided before.
func (l *ledger) decideField(field string, outcome Outcome, note string) {
	l.decideWithTarget(field, outcome, "", note)
}

// decideWithTarget is decideField for a field that the converted object has, perhaps with another value.
func (l *ledger) decideWithTarget(field string, outcome Outcome, target, note string) {
	decideLeaf := func(path string) {
		if _, done := l.decided[path]; done {
			return
		}
		f := Field{Path: path, Rule: field, Outcome: outcome, Note: note}
		if target != "" {
			f.Target = target + path[len(field):]
		}
		l.decided[path] = f
	}
	if _, isLeaf := l.leaves[field]; isLeaf { // there may be many, for example of labels
		decideLeaf(field)
		return
	}
	for path := range l.leaves {
		if isWithin(path, field) {
			decideLeaf(path)
		}
	}
}

// decideAll records one outcome for the whole object, whatever was decided before.
func (l *ledger) decideAll(outcome Outcome, note string) {
	clear(l.decided)
	l.added = nil
	for path := range l.leaves {
		l.decided[path] = Field{Path: path, Rule: path, Outcome: outcome, Note: note}
	}
}

// fieldValue returns the value of a field by its path, which has only plain keys; nil if it is not set.
func (l *ledger) fieldValue(field string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(l.source, strings.Split(field, ".")...)
	return value
}

// fieldText returns a string; empty if the field is not set or has another type.
func (l *ledger) fieldText(field string) string {
	text, _ := l.fieldValue(field).(string)
	return text
}

// setField sets a field of the converted object.
func (l *ledger) setField(field string, value any) error {
	return unstructured.SetNestedField(l.target, value, strings.Split(field, ".")...)
}

// keepField copies a field to a field of the converted object. A field that is not set is only recorded.
func (l *ledger) keepField(from, to string) error {
	value := l.fieldValue(from)
	if isUnset(value) {
		l.decideField(from, OutcomeKept, "")
		return nil
	}
	return l.keepAs(from, to, value)
}

// keepAs is keepField for a value in another form with the same meaning.
func (l *ledger) keepAs(from, to string, value any) error {
	l.decideWithTarget(from, OutcomeKept, to, "")
	return l.setField(to, copyWithoutNulls(value))
}

// changeField sets a field of the converted object to another value than that of a field.
func (l *ledger) changeField(from, to string, value any, note string) error {
	if isUnset(l.fieldValue(from)) {
		l.decideField(from, OutcomeKept, "")
		l.addFieldNote(from, note)
	}
	l.decideWithTarget(from, OutcomeChanged, to, note)
	return l.setField(to, value)
}

// addFieldNote records a field that only the converted object has.
func (l *ledger) addFieldNote(field, note string) {
	l.added = append(l.added, Field{Path: field, Rule: field, Outcome: OutcomeChanged, Note: note, IsAdded: true})
}

// loseField records that a field is lost, unless it is not set, or false where Grapnel does the same.
func (l *ledger) loseField(field, note string) {
	if isEmpty(l.fieldValue(field)) {
		l.decideField(field, OutcomeKept, "")
		return
	}
	l.decideField(field, OutcomeLost, note)
}

// listFields decides on the rest, and returns all fields.
func (l *ledger) listFields() []Field {
	for path := range l.leaves {
		if _, done := l.decided[path]; !done {
			l.decided[path] = Field{Path: path, Rule: path, Outcome: OutcomeLost, Note: "this field is unknown"}
		}
	}
	fields := slices.Collect(maps.Values(l.decided))
	fields = append(fields, l.added...)
	slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return fields
}

// loseUnknown removes what the type of the converted object does not have: known is the object after it was decoded
// and encoded again. Such fields are lost.
func (l *ledger) loseUnknown(known map[string]any) {
	leaves := map[string]any{}
	collectLeaves("", known, leaves)
	for path, field := range l.decided {
		if field.Outcome != OutcomeKept || field.Target == "" || isEmpty(l.leaves[path]) {
			continue
		}
		if _, found := leaves[field.Target]; !found {
			l.decided[path] = Field{Path: path, Rule: path, Outcome: OutcomeLost, Note: "this field is unknown"}
		}
	}
	pruneUnknown(l.target, known)
}

// pruneUnknown removes what is set in a value but missing in the known one.
func pruneUnknown(value, known any) {
	switch v := value.(type) {
	case map[string]any:
		k, _ := known.(map[string]any)
		for key, below := range v {
			if _, found := k[key]; !found && !isEmpty(below) {
				delete(v, key)
				continue
			}
			pruneUnknown(below, k[key])
		}
	case []any:
		k, _ := known.([]any)
		for i := range min(len(v), len(k)) {
			pruneUnknown(v[i], k[i])
		}
	}
}

// isUnset reports whether a value means the same as no value, in Velero's types.
func isUnset(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// isEmpty reports whether nothing is set in a value, or only false, zero and what isUnset.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, below := range v {
			if !isEmpty(below) {
				return false
			}
		}
		return true
	case string:
		return v == "" || v == zeroDuration
	case bool:
		return !v
	case int64:
		return v == 0
	}
	return isUnset(value)
}

// copyWithoutNulls copies a value. Null means that a field is not set.
func copyWithoutNulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		copied := map[string]any{}
		for key, below := range v {
			if below != nil {
				copied[key] = copyWithoutNulls(below)
			}
		}
		return copied
	case []any:
		copied := make([]any, len(v))
		for i, below := range v {
			copied[i] = copyWithoutNulls(below)
		}
		return copied
	}
	return value
}
