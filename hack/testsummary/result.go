// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// actionExit is no action of go test: whoever runs it adds it at the end, with the
// exit code as output.
const actionExit = "exit"

// key names a test; without a test, the package.
type key struct{ file, pkg, test string }

func (k key) String() string {
	return strings.TrimSpace(k.pkg + " " + k.test)
}

// state is what is known about a test or a package.
type state struct {
	outcome     string // pass, fail, skip; empty while it runs.
	output      strings.Builder
	failedBuild string
	parent      bool // Has subtests.
	failedBelow bool // A subtest, or a test of the package, failed.
}

// result gathers the runs.
type result struct {
	states  map[key]*state
	order   []key
	builds  map[string]*strings.Builder // Output of builds by import path.
	exits   map[string]string           // What go test exited with, where not 0, by file.
	broken  []string                    // What is wrong with whole files.
	failed  []key
	passed  int
	skipped int
	// moreFailed are the failed specs of suites beyond the first of each, which is in failed.
	moreFailed int
}

func newResult() *result {
	return &result{
		states: map[key]*state{},
		builds: map[string]*strings.Builder{},
		exits:  map[string]string{},
	}
}

// read adds one file.
func (r *result) read(path string, in io.Reader) error {
	ran := false
	var strange []string
	scanner := newScanner(in)
	for scanner.Scan() {
		e, ok := parse(scanner.Bytes())
		if !ok {
			strange = append(strange, scanner.Text())
			continue
		}
		ran = ran || e.Action != actionExit
		if e.Action == actionExit && e.Output != "0" && ran {
			r.exits[path] = e.Output + "\n" + strings.Join(strange, "\n")
		}
		if e.Action != actionExit {
			r.add(path, e)
		}
	}
	if !ran {
		r.broken = append(r.broken, fmt.Sprintf("%s: go test did not run\n%s", path, strings.Join(strange, "\n")))
	}
	return scanner.Err()
}

func (r *result) add(path string, e event) {
	if e.Action == "build-output" || e.Action == "build-fail" {
		build := r.builds[e.ImportPath]
		if build == nil {
			build = &strings.Builder{}
			r.builds[e.ImportPath] = build
		}
		build.WriteString(e.Output)
		return
	}
	k := key{path, e.Package, e.Test}
	s := r.state(k)
	switch e.Action {
	case "output":
		s.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		s.outcome = e.Action
		s.failedBuild = e.FailedBuild
	}
}

func (r *result) state(k key) *state {
	s := r.states[k]
	if s == nil {
		s = &state{}
		r.states[k] = s
		r.order = append(r.order, k)
	}
	return s
}

// close decides what each test and package counts as, once everything is read.
func (r *result) close() {
	for _, k := range r.order {
		for _, above := range k.above() {
			parent, ok := r.states[above]
			if !ok {
				continue
			}
			parent.parent = true
			if s := r.states[k]; s.outcome == "fail" || s.outcome == "" {
				parent.failedBelow = true
			}
		}
	}
	for _, k := range r.order {
		r.count(k, r.states[k])
	}
	for _, k := range r.failed {
		delete(r.exits, k.file) // Explained.
	}
	for path, exit := range r.exits {
		r.broken = append(r.broken, fmt.Sprintf("%s: go test exited with %s", path, exit))
	}
}

// above returns the tests that contain a test, and its package.
func (k key) above() []key {
	if k.test == "" {
		return nil
	}
	all := []key{{k.file, k.pkg, ""}}
	for i, c := range k.test {
		if c == '/' {
			all = append(all, key{k.file, k.pkg, k.test[:i]})
		}
	}
	return all
}

// specsLine is how Ginkgo ends the output of a suite, once its colors are removed.
var (
	specsLine = regexp.MustCompile(`! -- (\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped`)
	colors    = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// specs returns the numbers of specs of a suite; ok is false for anything else.
func (s *state) specs() (passed, failed, skipped int, ok bool) {
	match := specsLine.FindStringSubmatch(colors.ReplaceAllString(s.output.String(), ""))
	if match == nil {
		return 0, 0, 0, false
	}
	var n [4]int
	for i := range n {
		n[i], _ = strconv.Atoi(match[i+1])
	}
	return n[0], n[1], n[2] + n[3], true
}

func (r *result) count(k key, s *state) {
	passed, failed, skipped, isSuite := s.specs()
	r.passed += passed
	r.skipped += skipped
	switch s.outcome {
	case "fail", "":
		if !s.failedBelow {
			r.failed = append(r.failed, k)
			r.moreFailed += max(0, failed-1)
		}
	case "skip":
		if k.test != "" {
			r.skipped++
		}
	case "pass":
		if k.test != "" && !s.parent && !isSuite {
			r.passed++
		}
	}
}

func (r *result) green() bool {
	return r.passed > 0 && len(r.failed) == 0 && len(r.broken) == 0
}

func (r *result) print(out io.Writer) error {
	var b strings.Builder
	for _, text := range r.broken {
		fmt.Fprintf(&b, "\n=== BROKEN %s\n", text)
	}
	for _, k := range r.failed {
		s := r.states[k]
		what := "FAILED"
		if s.outcome == "" {
			what = "DID NOT END"
		}
		fmt.Fprintf(&b, "\n=== %s %s\n%s", what, k, r.outputOf(k, s))
	}
	failed := len(r.failed) + len(r.broken) + r.moreFailed
	if r.passed == 0 && failed == 0 {
		b.WriteString("\nNo test ran.\n")
	}
	fmt.Fprintf(&b, "\n%d passed, %d failed", r.passed, failed)
	if r.skipped > 0 {
		fmt.Fprintf(&b, ", %d skipped", r.skipped)
	}
	if _, err := fmt.Fprintln(out, b.String()); err != nil {
		return fmt.Errorf("printing the summary: %w", err)
	}
	return nil
}

// outputOf returns what a failed test or package printed. What a test printed
// when it ended its whole program, a panic or a timeout, may be its package's.
func (r *result) outputOf(k key, s *state) string {
	text := s.output.String()
	if build := r.builds[s.failedBuild]; build != nil {
		text = build.String() + text
	}
	if s.outcome == "" && k.test != "" {
		if pkg := r.states[key{k.file, k.pkg, ""}]; pkg != nil {
			text += pkg.output.String()
		}
	}
	lines := strings.SplitAfter(text, "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "=== ") // Progress marks of go test.
	})
	return strings.Join(lines, "")
}
