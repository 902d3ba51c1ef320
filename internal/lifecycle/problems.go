// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"slices"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/text"
)

const (
	// maxProblems is how many errors, and how many warnings, a status has.
	maxProblems = 10
	// maxProblemsBytes limits the messages of all problems, and maxProblemBytes each of them.
	maxProblemsBytes, maxProblemBytes = 6000, 1000
	// The limits of the API for the other fields, in bytes.
	maxReasonBytes, maxResourceBytes, maxNamespaceBytes, maxNameBytes = 64, 317, 63, 253
)

// RecordProblems replaces the problems in the status of a run by the first of those found. The
// redactor removes secrets from them.
func RecordProblems(run *v1alpha1.RunStatus, found results.Results, redactor *redact.Redactor) {
	run.Problems = nil
	AddProblems(run, found, redactor)
}

// AddProblems adds problems to those in the status of a run: the first of each severity stay.
func AddProblems(run *v1alpha1.RunStatus, found results.Results, redactor *redact.Redactor) {
	var errs, warnings []v1alpha1.Problem
	for _, p := range run.Problems {
		if p.Severity == v1alpha1.ProblemSeverityError {
			errs = append(errs, p)
		} else {
			warnings = append(warnings, p)
		}
	}
	errs = appendProblems(errs, v1alpha1.ProblemSeverityError, found.Errors, redactor)
	warnings = appendProblems(warnings, v1alpha1.ProblemSeverityWarning, found.Warnings, redactor)
	run.Problems = slices.Concat(errs, warnings)
	for i := range run.Problems {
		p := &run.Problems[i]
		p.Message = text.Truncate(p.Message, min(maxProblemBytes, maxProblemsBytes/len(run.Problems)))
	}
}

func appendProblems(problems []v1alpha1.Problem, severity v1alpha1.ProblemSeverity, found results.Problems, redactor *redact.Redactor) []v1alpha1.Problem {
	for i := range found[:min(len(found), max(0, maxProblems-len(problems)))] {
		p := &found[i]
		// A file in a location may have neither, and the API would reject every later status.
		reason := cmp.Or(p.Reason, results.ReasonUnknown)
		problems = append(problems, v1alpha1.Problem{
			Severity: severity, Reason: text.Truncate(reason, maxReasonBytes), Resource: text.Truncate(p.Resource, maxResourceBytes),
			Namespace: text.Truncate(p.Namespace, maxNamespaceBytes), Name: text.Truncate(p.Name, maxNameBytes),
			Message: cmp.Or(redactor.String(p.Message), reason),
		})
	}
	return problems
}

// DescribeErrors returns how many errors a run has, with the first one: "2 errors, the first: MESSAGE".
func DescribeErrors(run *v1alpha1.RunStatus) string {
	return describeProblems(run, v1alpha1.ProblemSeverityError, run.Errors, "error")
}

// DescribeWarnings is DescribeErrors for warnings, without the first one if there are errors: one
// text is enough.
func DescribeWarnings(run *v1alpha1.RunStatus) string {
	if run.Errors > 0 {
		return text.Pluralize(run.Warnings, "warning")
	}
	return describeProblems(run, v1alpha1.ProblemSeverityWarning, run.Warnings, "warning")
}

func describeProblems(run *v1alpha1.RunStatus, severity v1alpha1.ProblemSeverity, count int64, noun string) string {
	said := text.Pluralize(count, noun)
	first := slices.IndexFunc(run.Problems, func(p v1alpha1.Problem) bool { return p.Severity == severity })
	switch {
	case first < 0:
		return said
	case count == 1:
		return said + ": " + run.Problems[first].Message
	}
	return said + ", the first: " + run.Problems[first].Message
}

// HasProblem reports whether one of the problems in the status of a run has a reason.
func HasProblem(run *v1alpha1.RunStatus, reason string) bool {
	return slices.ContainsFunc(run.Problems, func(p v1alpha1.Problem) bool { return p.Reason == reason })
}
