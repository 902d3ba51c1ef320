// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePriorities(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want Priorities
		// wantErrs are "<line>: <part of the problem>".
		wantErrs []string
	}{
		"nothing": {"", Priorities{}, nil},
		"as in Velero's documentation": {
			"rockbands.music.example.io=v2beta1,v2beta2\norchestras.music.example.io=v2,v3alpha1\nsubscriptions.operators.coreos.com=v2,v1\n",
			Priorities{
				"rockbands.music.example.io":         {"v2beta1", "v2beta2"},
				"orchestras.music.example.io":        {"v2", "v3alpha1"},
				"subscriptions.operators.coreos.com": {"v2", "v1"},
			},
			nil,
		},
		"core group, no end of line": {"pods=v1", Priorities{"pods": {"v1"}}, nil},
		"spaces, tabs, empty lines, comments, CRLF": {
			"\r\n \t\n# why\r\n  pods =\tv1 , v2\t\r\n\n  # more\njobs.batch=v1 # because\n",
			Priorities{"pods": {"v1", "v2"}, "jobs.batch": {"v1"}},
			nil,
		},
		"a repeated resource": {
			"pods=v1\njobs.batch=v1\npods=v2\npods=v3",
			Priorities{"pods": {"v3"}, "jobs.batch": {"v1"}},
			[]string{"3: line 1 is about the same resource", "4: line 3 is about the same resource"},
		},
		"a faulty repetition does not count": {
			"pods=v1\npods=",
			Priorities{"pods": {"v1"}},
			[]string{"2: a version is missing"},
		},
		"each fault with its line": {
			"pods\n\n=v1\npods=v1,,v2\nPods=v1\npods=v1=v2\nwidgets.example.org=v1\npods.=v1\npods v1=v2\npods=v1/v2\n=",
			Priorities{"widgets.example.org": {"v1"}},
			[]string{
				`1: there is no "="`,
				"3: there is no resource",
				"4: a version is missing",
				`5: "Pods" is not a resource`,
				`6: "v1=v2" is not a version`,
				`8: "pods." is not a resource`,
				`9: "pods v1" is not a resource`,
				`10: "v1/v2" is not a version`,
				"11: there is no resource",
			},
		},
		"a backslash and an n are no end of line": {
			`a.example.org=v2\nb.example.org=v1`,
			Priorities{},
			[]string{`1: "v2\\nb.example.org=v1" is not a version`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := ParsePriorities(tc.text)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("priorities (-want +got):\n%s", diff)
			}
			if len(errs) != len(tc.wantErrs) {
				t.Fatalf("errors: %v, want %q", errs, tc.wantErrs)
			}
			for i, err := range errs {
				var line *LineError
				if !errors.As(err, &line) {
					t.Fatalf("%T is no *LineError", err)
				}
				if got := fmt.Sprintf("%d: %s", line.Line, line.Problem); !strings.HasPrefix(got, tc.wantErrs[i]) {
					t.Errorf("got %s, want %s", got, tc.wantErrs[i])
				}
			}
		})
	}
}

func TestLineError_LongLine(t *testing.T) {
	_, errs := ParsePriorities("pods=v1\n " + strings.Repeat("ü", 1000) + "=v1")
	if len(errs) != 1 {
		t.Fatalf("errors: %v, want one", errs)
	}
	message := errs[0].Error()
	if !strings.HasPrefix(message, `line 2, "üü`) || !strings.Contains(message, "is not a resource") || len(message) > 500 {
		t.Errorf("message: %s", message)
	}
}

func FuzzParsePriorities(f *testing.F) {
	f.Add("pods=v1\r\n# x\njobs.batch = v1,v2 # y\n")
	f.Add("pods\npods=\n=v1")
	f.Fuzz(func(t *testing.T, text string) {
		got, errs := ParsePriorities(text)
		if lines := strings.Count(text, "\n") + 1; len(got)+len(errs) > lines {
			t.Errorf("%d lines say %v and %v", lines, got, errs)
		}
		var canonical strings.Builder
		for _, resource := range slices.Sorted(maps.Keys(got)) {
			fmt.Fprintf(&canonical, "%s=%s\n", resource, strings.Join(got[resource], ","))
		}
		again, errs := ParsePriorities(canonical.String())
		if len(errs) > 0 {
			t.Errorf("%q cannot be read again: %v", canonical.String(), errs)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("read again (-first +second):\n%s", diff)
		}
	})
}
