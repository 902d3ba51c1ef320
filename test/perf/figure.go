// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// figure is one line of the result. Limit and Target have the unit of Value.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Limit is what the least possible work costs, measured in the same run.
	Limit float64 `json:"limit"`
	// Ratio is Value by Limit, 0 if there is no Limit.
	Ratio float64 `json:"ratio"`
	// Target is the most that Value may be.
	Target float64 `json:"target"`
}

// newFigure fills in the ratio.
func newFigure(name, unit string, value, limit, target float64) figure {
	f := figure{Name: name, Value: value, Unit: unit, Limit: limit, Target: target}
	if limit > 0 {
		f.Ratio = value / limit
	}
	return f
}

func (f figure) met() bool { return f.Value <= f.Target }

// missed returns how many figures are above their target.
func missed(figures []figure) int {
	n := 0
	for _, f := range figures {
		if !f.met() {
			n++
		}
	}
	return n
}

// printTable prints the figures, aligned.
func printTable(out io.Writer, figures []figure) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "value\tlimit\tratio\ttarget\tunit\t\t  figure\t")
	for _, f := range figures {
		verdict := "met"
		if !f.met() {
			verdict = "MISSED"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%.2f\t%s\t%s\t%s\t  %s\n",
			number(f.Value), number(f.Limit), f.Ratio, number(f.Target), f.Unit, verdict, f.Name)
	}
	return table.Flush()
}

// number prints three digits that matter.
func number(v float64) string {
	switch {
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// writeJSON writes the figures to a file.
func writeJSON(path string, figures []figure) error {
	content, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	if err := os.WriteFile(path, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return nil
}
