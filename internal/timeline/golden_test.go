// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the files in testdata")

// compareGolden compares a text with a file in testdata.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s; go test -update writes the file (-want +got):\n%s", path, diff)
	}
}

func TestTimeline_DrawTerminal(t *testing.T) {
	for name, s := range newSamples() {
		for _, columns := range []int{40, 80} {
			t.Run(fmt.Sprint(name, columns), func(t *testing.T) {
				drawn := s.build()
				compareGolden(t, fmt.Sprintf("%s.%d.txt", name, columns), drawn.DrawTerminal(columns, false))
			})
		}
	}
}

func TestTimeline_DrawTerminal_Colors(t *testing.T) {
	drawn := newSamples()["failed"].build()
	compareGolden(t, "colors.txt", drawn.DrawTerminal(80, true))
}

func TestTimeline_DrawSVG(t *testing.T) {
	for name, s := range newSamples() {
		t.Run(name, func(t *testing.T) {
			drawn := s.build()
			svg, err := drawn.DrawSVG()
			if err != nil {
				t.Fatal(err)
			}
			checkXML(t, string(svg))
			compareGolden(t, name+".svg", string(svg))
		})
	}
}

func TestTimeline_DrawPage(t *testing.T) {
	drawn := newSamples()["failed"].build()
	page, err := drawn.DrawPage()
	if err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "failed.html", page)
}

// checkXML checks that a text is well-formed, as browsers require of an SVG.
func checkXML(t *testing.T, s string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(s))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("no XML: %v\n%s", err, s)
		}
	}
}

// TestTimeline_Hostile draws names that would change the terminal or the page.
func TestTimeline_Hostile(t *testing.T) {
	const hostile = "\"'><script>alert(1)</script>\x1b[31m\u202e\r\n\x00\uffff\xff&<"
	s := newSample(hostile, 10, stage(hostile, 0), stage("Archiving", 5))
	s.run.Name = hostile
	s.hooks = []v1alpha1.HookRun{newHookRun(hostile, hostile, hostile, attempt(1, 2, hostile), attempt(2, 3, hostile))}
	o := newOperation(1, hostile, 1, 2)
	o.Spec.ActionName, o.Spec.Item.Name = hostile, hostile
	s.operations = []v1alpha1.AsyncOperation{o}
	drawn := s.build()
	svg, svgErr := drawn.DrawSVG()
	page, pageErr := drawn.DrawPage()
	if svgErr != nil || pageErr != nil {
		t.Fatal(svgErr, pageErr)
	}
	checkXML(t, string(svg))
	for name, text := range map[string]string{"terminal": drawn.DrawTerminal(40, false), "svg": string(svg), "page": page} {
		if strings.ContainsAny(text, "\x1b\u202e\r\x00\uffff") || !utf8.ValidString(text) {
			t.Errorf("the %s has control characters: %q", name, text)
		}
		if name != "terminal" && strings.Contains(text, "<script") {
			t.Errorf("the %s has a script: %s", name, text)
		}
	}
	if lines := strings.Count(drawn.DrawTerminal(80, false), "\n"); lines != 13 {
		t.Errorf("names add lines to the picture: there are %d\n%s", lines, drawn.DrawTerminal(80, false))
	}
}

// TestTimeline_DrawTerminal_Widths checks that no line is wider than the terminal.
func TestTimeline_DrawTerminal_Widths(t *testing.T) {
	for name, s := range newSamples() {
		for columns := minColumns; columns < 200; columns++ {
			drawn := s.build()
			for line := range strings.Lines(drawn.DrawTerminal(columns, false)) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
					t.Errorf("%s on %d columns has a line of %d: %s", name, columns, n, line)
				}
			}
		}
	}
}
