// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"fmt"
	"slices"
	"strings"
)

// Points names the sides of a kind of parent.
type Points struct {
	// Kind is the name of the kind, for example Backup.
	Kind string
	// Pre, Post and Item are the names of the sides, for example PreBackup, PostBackup and
	// BackupItem. Post is empty if there is only one point: its actions are on the Pre side.
	Pre, Post, Item string
}

// SideName returns the name of a side, for example PreBackup.
func (p Points) SideName(side Side) string {
	switch side {
	case Pre:
		return p.Pre
	case Post:
		return p.Post
	default:
		return p.Item
	}
}

func (p Points) annotationSuffix(side Side) string { return strings.ToLower(p.SideName(side)) }

// SkipAnnotationKey returns the annotation that skips an action. Kubernetes allows one
// slash in a key, so the key of the original design, <plugin>/prebackup, only
// fits names without a slash; a name with one gets <domain>/<plugin>.prebackup.
func (p Points) SkipAnnotationKey(name string, side Side) string {
	if strings.Contains(name, "/") {
		return name + "." + p.annotationSuffix(side)
	}
	return name + "/" + p.annotationSuffix(side)
}

// skipAnnotations are the annotations of an object that look like skip annotations.
type skipAnnotations struct {
	points Points
	values map[string]string
}

func parseSkipAnnotations(points Points, annotations map[string]string) skipAnnotations {
	s := skipAnnotations{points: points, values: map[string]string{}}
	for key, value := range annotations {
		for _, word := range []string{"prebackup", "postbackup", "prerestore", "postrestore"} {
			if strings.HasSuffix(key, "/"+word) || (strings.Contains(key, "/") && strings.HasSuffix(key, "."+word)) {
				s.values[key] = value
			}
		}
	}
	return s
}

// shouldSkip reports whether an action is skipped. Only run-once actions can be skipped.
func (s skipAnnotations) shouldSkip(a Action) bool {
	return a.Side != Item && s.values[s.points.SkipAnnotationKey(a.Name, a.Side)] == skipValue
}

// skipValue is the only valid value of a skip annotation.
const skipValue = "skip"

// invalidValueErrors returns an error for each annotation that names a known action and has another
// value: a typo must not silently run a hook.
func (s skipAnnotations) invalidValueErrors(actions []Action) []string {
	var errs []string
	for _, a := range actions {
		if a.Side == Item {
			continue
		}
		key := s.points.SkipAnnotationKey(a.Name, a.Side)
		if value, ok := s.values[key]; ok && value != skipValue {
			errs = append(errs, fmt.Sprintf("annotation %s has the value %q; the only value it may have is %q", key, value, skipValue))
		}
	}
	slices.Sort(errs)
	return errs
}

// unknownActionWarnings returns a warning for each annotation that names no known action.
func (s skipAnnotations) unknownActionWarnings(actions []Action) []string {
	known := map[string]bool{}
	for _, a := range actions {
		if a.Side != Item {
			known[s.points.SkipAnnotationKey(a.Name, a.Side)] = true
		}
	}
	var out []string
	for key := range s.values {
		if !known[key] {
			out = append(out, fmt.Sprintf("annotation %s skips nothing: no Plugin provides that action for a %s", key, s.points.Kind))
		}
	}
	slices.Sort(out)
	return out
}
