// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// The indentation of the output: text, and what belongs to the line before.
const (
	indent = "  "
	deeper = "    "
)

// printer lays the output out.
type printer struct {
	out  io.Writer
	step int
}

// write writes text as it is. If the output is closed, nothing is lost: the exit code
// tells the outcome.
func (p *printer) write(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format, args...)
}

// heading begins a numbered step.
func (p *printer) heading(text string) {
	p.step++
	line := fmt.Sprintf("%d. %s", p.step, text)
	p.write("\n%s\n%s\n", line, strings.Repeat("-", len(line)))
}

// say prints a line.
func (p *printer) say(format string, args ...any) {
	p.write(indent+format+"\n", args...)
}

// gap separates paragraphs.
func (p *printer) gap() {
	p.write("\n")
}

// command prints a command that the reader can repeat.
func (p *printer) command(line string) {
	p.write("%s$ %s\n", indent, line)
}

// text prints several lines, indented.
func (p *printer) text(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		p.write("%s\n", strings.TrimRight(deeper+line, " \n"))
	}
}

// table prints aligned columns. Cells may not contain tabs.
func (p *printer) table(rows [][]string) {
	var aligned strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // A strings.Builder takes everything.
	p.text(aligned.String())
}
