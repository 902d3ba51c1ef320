// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// restored is what a restore was configured to do, as far as it shows in the objects.
type restored struct {
	before, after snapshot
	// mapping has the namespaces that got another name.
	mapping map[string]string
	// backup and restore are names, uid is that of the Restore.
	backup, restore, uid string
}

// difference is one field of one object that is not what it was. A field that an
// object does not have is nil.
type difference struct {
	// object is what it was called before.
	object        identity
	field         string
	before, after any
}

// comparison is the result of comparing.
type comparison struct {
	compared int
	// same are objects that do not differ in anything.
	same []identity
	// missing are not there any more, additional were not there before.
	missing, additional []identity
	// expected has the differences that each rule explains, by its place in rules().
	expected map[int][]difference
	// unexpected is explained by no rule.
	unexpected []difference
}

// compareAll compares every object with what it was, field by field.
func compareAll(r *restored) comparison {
	c := comparison{expected: map[int][]difference{}}
	found := map[identity]bool{}
	for _, id := range sorted(r.before) {
		now := r.target(id)
		after, ok := r.after[now]
		if !ok {
			c.missing = append(c.missing, id)
			continue
		}
		found[now] = true
		c.compared++
		differences := differ(id, "", r.before[id].Object, after.Object)
		if len(differences) == 0 {
			c.same = append(c.same, id)
		}
		c.explain(r, differences)
	}
	for _, id := range sorted(r.after) {
		if !found[id] {
			c.additional = append(c.additional, id)
		}
	}
	return c
}

// target returns the name that an object must have now.
func (r *restored) target(id identity) identity {
	id.namespace = r.name(id.namespace)
	if id.kind.Group == "" && id.kind.Kind == "Namespace" {
		id.name = r.name(id.name)
	}
	return id
}

// name returns the name that a namespace has now.
func (r *restored) name(namespace string) string {
	if to, ok := r.mapping[namespace]; ok {
		return to
	}
	return namespace
}

// explain finds the rule for each difference.
func (c *comparison) explain(r *restored, differences []difference) {
	all := rules()
	for _, d := range differences {
		i := slices.IndexFunc(all, func(rule rule) bool { return within(d.field, rule.fields) && rule.holds(r, d) })
		if i < 0 {
			c.unexpected = append(c.unexpected, d)
			continue
		}
		c.expected[i] = append(c.expected[i], d)
	}
}

// within reports whether a field is one of the given ones, or below one of them.
func within(field string, fields []string) bool {
	return slices.ContainsFunc(fields, func(parent string) bool {
		rest, ok := strings.CutPrefix(field, parent)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// differ returns the smallest fields that differ. An object that is missing has
// fields too, each nil, so that what is below it can be distinguished.
func differ(id identity, field string, before, after any) []difference {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	if a, b, ok := both[map[string]any](before, after); ok && len(a)+len(b) > 0 {
		return differInside(id, field, a, b)
	}
	a, b, ok := both[[]any](before, after)
	if !ok || len(a) != len(b) || len(a) == 0 {
		return []difference{{object: id, field: field, before: before, after: after}}
	}
	var all []difference
	for i := range a {
		all = append(all, differ(id, field+"["+strconv.Itoa(i)+"]", a[i], b[i])...)
	}
	return all
}

func differInside(id identity, field string, before, after map[string]any) []difference {
	keys := maps.Clone(before)
	if keys == nil {
		keys = map[string]any{}
	}
	maps.Copy(keys, after)
	var all []difference
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, differ(id, strings.TrimPrefix(field+"."+key, "."), before[key], after[key])...)
	}
	return all
}

// both returns two values as what they are, where nil may stand for one of them.
func both[T any](before, after any) (a, b T, ok bool) {
	a, isA := before.(T)
	b, isB := after.(T)
	return a, b, (isA || before == nil) && (isB || after == nil)
}

func sorted(s snapshot) []identity {
	return slices.SortedFunc(maps.Keys(s), func(a, b identity) int { return strings.Compare(a.String(), b.String()) })
}
