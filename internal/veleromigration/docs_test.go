// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package veleromigration

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentation compares the table in docs/guides/from-velero.md with what becomes of every field.
func TestDocumentation(t *testing.T) {
	const (
		path  = "../../docs/guides/from-velero.md"
		start = "| --- | --- | --- |\n"
		end   = "<!-- The end of the table. -->\n"
	)
	conversions, err := Convert(readInput(t, "fields"), Options{Namespace: "grapnel-system"})
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	seen := map[string]bool{}
	for i := range conversions {
		c := &conversions[i]
		for j := range c.Fields {
			f := &c.Fields[j]
			name := c.Object.GetKind() + " `" + f.Rule + "`"
			if c.Reason != "" || seen[name] || !strings.HasPrefix(f.Rule, "spec.") || f.IsAdded {
				continue
			}
			seen[name] = true
			target := ""
			if f.Target != "" {
				target = "`" + f.targetOfRule() + "`"
			}
			what := string(f.Outcome)
			if f.Note != "" {
				what += ": " + f.Note
			}
			table.WriteString("| " + name + " | " + target + " | " + what + " |\n")
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, hasStart := strings.Cut(string(content), start)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasStart || !hasEnd || len(seen) < 60 {
		t.Fatalf("%s has no table, or the input only %d fields", path, len(seen))
	}
	checkFile(t, path, before+start+table.String()+end+after)
}
