// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	record := flag.String("record", "", "copy standard input to this file")
	flag.Parse()
	green, err := run(*record, flag.Args(), os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
	}
	// Of a summary that is not green nothing is said but in the summary: its last
	// line must remain the last.
	if err != nil || !green {
		os.Exit(1)
	}
}

// run does what the command line asks; green is false for a summary with failures.
func run(record string, files []string, in io.Reader, out io.Writer) (green bool, err error) {
	if record != "" {
		return true, follow(in, record, out)
	}
	result := newResult()
	for _, path := range files {
		if err := readFile(result, path); err != nil {
			return false, err
		}
	}
	result.close()
	return result.green(), result.print(out)
}

func readFile(result *result, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the output of a run: %w", err)
	}
	defer func() { _ = file.Close() }()
	if err := result.read(path, file); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
