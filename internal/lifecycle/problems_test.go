// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// newProblems returns n problems with long messages.
func newProblems(prefix string, n int) (problems results.Problems) {
	for i := range n {
		problems = append(problems, results.Problem{
			Subject: results.Subject{Resource: "configmaps", Namespace: "shop", Name: fmt.Sprint(prefix, i)},
			Reason:  results.ReasonNotRestored, Message: fmt.Sprint(prefix, i, " ", strings.Repeat("x", 5000)),
		})
	}
	return problems
}

// TestRecordProblems records the first 10 errors before the first 10 warnings, whose messages are
// cut off.
func TestRecordProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		errs, warnings int
		want           []string
		wantBytes      int
	}{
		"none":           {},
		"one":            {errs: 1, want: []string{"e0"}, wantBytes: 1000},
		"ten errors":     {errs: 10, want: []string{"e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9"}, wantBytes: 600},
		"eleven of each": {errs: 11, warnings: 11, want: []string{"e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9", "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"}, wantBytes: 300},
	} {
		t.Run(name, func(t *testing.T) {
			run := &v1alpha1.RunStatus{Problems: []v1alpha1.Problem{{Message: "of an earlier attempt"}}}
			lifecycle.RecordProblems(run, results.Results{Errors: newProblems("e", tc.errs), Warnings: newProblems("w", tc.warnings)}, redact.New())
			var got []string
			for _, p := range run.Problems {
				got = append(got, p.Name)
				if len(p.Message) != tc.wantBytes || !strings.HasPrefix(p.Message, p.Name) {
					t.Errorf("the message of %s has %d bytes, want %d", p.Name, len(p.Message), tc.wantBytes)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestRecordProblems_Hostile records problems whose texts came from an archive or a plugin.
func TestRecordProblems_Hostile(t *testing.T) {
	redactor := redact.New()
	redactor.AddValues("hunter2hunter2")
	run := &v1alpha1.RunStatus{}
	lifecycle.RecordProblems(run, results.Results{Errors: results.Problems{{
		Subject: results.Subject{Resource: strings.Repeat("r", 999), Namespace: strings.Repeat("s", 999), Name: strings.Repeat("n", 999)},
		Reason:  strings.Repeat("R", 999), Message: "the password hunter2hunter2 is wrong\xff",
	}}}, redactor)
	p := run.Problems[0]
	if len(p.Resource) > 317 || len(p.Namespace) > 63 || len(p.Name) > 253 || len(p.Reason) > 64 {
		t.Errorf("the API would reject %+v", p)
	}
	if strings.Contains(p.Message, "hunter2") || !strings.HasSuffix(p.Message, "is wrong\ufffd") {
		t.Errorf("the message is %q, want it without the secret, in UTF-8", p.Message)
	}
}

// TestRecordProblems_Empty records a problem of a file in a location that has nothing the API requires.
func TestRecordProblems_Empty(t *testing.T) {
	run := &v1alpha1.RunStatus{}
	lifecycle.RecordProblems(run, results.Results{Errors: results.Problems{{}}}, redact.New())
	if p := run.Problems[0]; p.Reason == "" || p.Message == "" {
		t.Errorf("the API would reject %+v", p)
	}
}

// TestAddProblems adds errors before the warnings that are there.
func TestAddProblems(t *testing.T) {
	run := &v1alpha1.RunStatus{}
	lifecycle.RecordProblems(run, results.Results{Errors: newProblems("e", 1), Warnings: newProblems("w", 1)}, redact.New())
	lifecycle.AddProblems(run, results.Results{Errors: newProblems("late", 12)}, redact.New())
	if n := len(run.Problems); n != 11 || run.Problems[0].Name != "e0" || run.Problems[1].Name != "late0" || run.Problems[10].Name != "w0" {
		t.Errorf("got %d problems: %+v", n, run.Problems)
	}
}

// TestDescribeErrors names the first error, or the first warning if there is no error.
func TestDescribeErrors(t *testing.T) {
	errorOf := func(message string) v1alpha1.Problem {
		return v1alpha1.Problem{Severity: v1alpha1.ProblemSeverityError, Message: message}
	}
	warning := v1alpha1.Problem{Severity: v1alpha1.ProblemSeverityWarning, Message: "be careful"}
	for name, tc := range map[string]struct {
		run                      v1alpha1.RunStatus
		wantErrors, wantWarnings string
	}{
		"one error":    {v1alpha1.RunStatus{Errors: 1, Problems: []v1alpha1.Problem{errorOf("it broke")}}, "1 error: it broke", "0 warnings"},
		"two errors":   {v1alpha1.RunStatus{Errors: 2, Warnings: 1, Problems: []v1alpha1.Problem{errorOf("it broke"), errorOf("again"), warning}}, "2 errors, the first: it broke", "1 warning"},
		"one warning":  {v1alpha1.RunStatus{Warnings: 1, Problems: []v1alpha1.Problem{warning}}, "0 errors", "1 warning: be careful"},
		"two warnings": {v1alpha1.RunStatus{Warnings: 2, Problems: []v1alpha1.Problem{warning, warning}}, "0 errors", "2 warnings, the first: be careful"},
		"unknown":      {v1alpha1.RunStatus{Errors: 3}, "3 errors", "0 warnings"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lifecycle.DescribeErrors(&tc.run); got != tc.wantErrors {
				t.Errorf("errors: %q, want %q", got, tc.wantErrors)
			}
			if got := lifecycle.DescribeWarnings(&tc.run); got != tc.wantWarnings {
				t.Errorf("warnings: %q, want %q", got, tc.wantWarnings)
			}
		})
	}
}
