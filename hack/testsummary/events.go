// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// maxLine bounds one line of `go test -json`, which holds one line of a test's
// output.
const maxLine = 16 << 20

// event is a line of `go test -json`; `go doc test2json` defines it.
type event struct {
	Action      string
	Package     string
	ImportPath  string // Instead of Package for the output of a build.
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// parse returns false for a line that is not an event: what go prints when it
// cannot even begin.
func parse(line []byte) (event, bool) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		return event{}, false
	}
	return e, true
}

func newScanner(in io.Reader) *bufio.Scanner {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	return scanner
}

// follow copies in to a file and prints a line for each package that ends.
func follow(in io.Reader, path string, out io.Writer) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("making the record: %w", err)
	}
	defer func() { _ = file.Close() }()
	scanner := newScanner(in)
	for scanner.Scan() {
		if _, err := fmt.Fprintf(file, "%s\n", scanner.Bytes()); err != nil {
			return fmt.Errorf("writing the record: %w", err)
		}
		if line := progress(scanner.Bytes()); line != "" {
			if _, err := fmt.Fprintln(out, line); err != nil {
				return fmt.Errorf("printing: %w", err)
			}
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("reading the run: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("closing the record: %w", err)
	}
	return nil
}

func progress(line []byte) string {
	e, ok := parse(line)
	if !ok {
		return strings.TrimRight(string(line), "\n")
	}
	if e.Test != "" {
		return ""
	}
	took := time.Duration(e.Elapsed * float64(time.Second)).Round(time.Millisecond)
	switch e.Action {
	case "pass":
		return fmt.Sprintf("ok    %s  %s", e.Package, took)
	case "fail":
		return fmt.Sprintf("FAIL  %s  %s", e.Package, took)
	default:
		return ""
	}
}
