// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFigures(t *testing.T) {
	figures := []figure{
		newFigure("fast enough", "s", 3, 2, 4),
		newFigure("exactly", "ms", 300, 100, 300),
		newFigure("too slow", "s", 4.5, 2, 4),
		newFigure("without a limit", "bytes", -12.5, 0, 300),
	}
	if n := missed(figures); n != 1 {
		t.Errorf("%d figures count as missed, want 1", n)
	}
	var table strings.Builder
	if err := printTable(&table, figures); err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for line := range strings.Lines(table.String()) {
		got = append(got, strings.Fields(line))
	}
	want := [][]string{
		{"value", "limit", "ratio", "target", "unit", "figure"},
		{"3.00", "2.00", "1.50", "4.00", "s", "met", "fast", "enough"},
		{"300", "100", "3.00", "300", "ms", "met", "exactly"},
		{"4.50", "2.00", "2.25", "4.00", "s", "MISSED", "too", "slow"},
		{"-12.5", "0.00", "0.00", "300", "bytes", "met", "without", "a", "limit"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// The keys are what others read from the file.
func TestWriteJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.json")
	if err := writeJSON(path, []figure{newFigure("n", "s", 3, 2, 4)}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{"name": "n", "value": 3.0, "unit": "s", "limit": 2.0, "ratio": 1.5, "target": 4.0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}
