// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/text"
)

const (
	// narrowColumns is where a label no longer fits beside a bar, and is above it.
	narrowColumns  = 60
	minColumns     = 24
	maxBarColumns  = 100
	columnsPerTick = 10
	// maxDurationColumns is for example that of "999d23h".
	maxDurationColumns = 7
	narrowIndent       = "  "
)

// terminalPicture is a picture on a terminal. Each column has two halves, which are drawn apart.
type terminalPicture struct {
	*Timeline
	labelColumns, barColumns int
	isNarrow, isColored      bool
	lines                    []string
}

// DrawTerminal returns lines of at most columns columns, if there are at least minColumns. Control characters are removed;
// only with isColored, there are escape sequences for colors.
func (t *Timeline) DrawTerminal(columns int, isColored bool) string {
	columns = max(columns, minColumns)
	p := &terminalPicture{Timeline: t, isNarrow: columns < narrowColumns, isColored: isColored}
	available := columns - maxDurationColumns - len("  ")
	if p.isNarrow {
		p.labelColumns, p.barColumns = available+1, columns-len(narrowIndent)
	} else {
		widest := 0
		for _, section := range t.Sections {
			for i := range section.Rows {
				widest = max(widest, utf8.RuneCountInString(rowLabel(&section.Rows[i])))
			}
		}
		p.labelColumns = min(widest, max(available*3/5, available-maxBarColumns))
		p.barColumns = min(available-p.labelColumns, maxBarColumns)
	}
	p.addText(p.describeTotal(), columns)
	if len(t.Sections) == 0 {
		p.addText("Nothing is recorded about its stages, hooks and operations.", columns)
	}
	for _, section := range t.Sections {
		p.addText("", columns)
		p.addAxis(section.Name)
		for i := range section.Rows {
			p.addRow(&section.Rows[i])
		}
	}
	return strings.Join(p.lines, "\n") + "\n"
}

// describeTotal returns when the run started, and how long it took.
func (t *Timeline) describeTotal() string {
	verb := "took"
	if t.Running {
		verb = "running for"
	}
	return fmt.Sprintf("%s, %s %s", t.Start.Format("2006-01-02 15:04:05 MST"), verb, FormatDuration(t.Elapsed()))
}

func (p *terminalPicture) addText(line string, columns int) {
	p.lines = append(p.lines, cutLine(line, columns))
}

// addAxis adds the name of a section and the time axis.
func (p *terminalPicture) addAxis(name string) {
	axis := []rune(strings.Repeat(" ", p.barColumns))
	for _, tick := range p.terminalTicks() {
		label, column := []rune(tickMark+formatTick(tick)), p.columnOf(tick)/2
		if column+len(label) <= len(axis) {
			copy(axis[column:], label)
		} else { // before its tick
			copy(axis[column-len(label)+1:], []rune(formatTick(tick)+tickMark))
		}
	}
	p.addLine(padLine(name, p.labelColumns), string(axis), "")
}

// addLine adds a label, a bar and a duration, or two lines if it is narrow.
func (p *terminalPicture) addLine(label, bar, duration string) {
	lines := []string{label + " " + bar + " " + duration}
	if p.isNarrow {
		lines = []string{label + " " + duration, narrowIndent + bar}
	}
	for _, line := range lines {
		p.lines = append(p.lines, strings.TrimRight(line, " "))
	}
}

// tickMark is at each tick, on the axis and between bars.
const tickMark = "┊"

func (p *terminalPicture) terminalTicks() []time.Duration {
	return p.chooseTicks(max(p.barColumns/columnsPerTick, 1))
}

// columnOf returns the half column of a time since the start.
func (p *terminalPicture) columnOf(since time.Duration) int {
	last := 2*p.barColumns - 1
	if p.Elapsed() <= 0 {
		return 0
	}
	return min(int(float64(since)/float64(p.Elapsed())*float64(last+1)), last)
}

// addRow adds the label, the bar and the duration of a row.
func (p *terminalPicture) addRow(r *Row) {
	label := p.colorizeText(r.State, padLine(rowLabel(r), p.labelColumns))
	if p.isNarrow && len(r.Spans) == 0 {
		p.lines = append(p.lines, strings.TrimRight(label, " "))
		return
	}
	p.addLine(label, p.drawBar(r), r.durationText())
}

// drawBar returns the bar of a row: full blocks, half blocks at its ends, and gray blocks for what still runs. A short
// Span has at least one half block.
func (p *terminalPicture) drawBar(r *Row) string {
	halves := make([]State, 2*p.barColumns)
	for _, span := range r.Spans {
		first := p.columnOf(span.Start.Sub(p.Start))
		for i := first; i <= max(first, p.columnOf(span.End.Sub(p.Start)-1)); i++ {
			halves[i] = span.State
		}
	}
	var ticks []int
	for _, tick := range p.terminalTicks() {
		ticks = append(ticks, p.columnOf(tick)/2)
	}
	var bar strings.Builder
	for column := range p.barColumns {
		left, right := halves[2*column], halves[2*column+1]
		switch {
		case left == StateRunning || right == StateRunning:
			bar.WriteString(p.colorizeText(StateRunning, "▒"))
		case left != "" && right != "":
			bar.WriteString(p.colorizeText(left, "█"))
		case left != "":
			bar.WriteString(p.colorizeText(left, "▌"))
		case right != "":
			bar.WriteString(p.colorizeText(right, "▐"))
		case slices.Contains(ticks, column):
			bar.WriteString(tickMark)
		default:
			bar.WriteString(" ")
		}
	}
	return bar.String()
}

// colorizeText returns a text in the color of a state (ECMA-48).
func (p *terminalPicture) colorizeText(state State, s string) string {
	color := map[State]string{StatePassed: "36", StateSucceeded: "32", StateFailed: "31", StateStopped: "35", StateRunning: "33"}[state]
	if !p.isColored || color == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// rowLabel returns the text before a bar.
func rowLabel(r *Row) string {
	indent := "  "
	if r.IsAttempt {
		indent = "    "
	}
	return cleanLine(indent + r.describeRow())
}

// cleanLine returns a text as one line without control characters.
func cleanLine(s string) string {
	return text.StripControl(strings.NewReplacer("\n", " ", "\t", " ").Replace(s))
}

// cutLine cuts a line to a number of columns.
func cutLine(line string, columns int) string {
	characters := []rune(line)
	if len(characters) <= columns {
		return line
	}
	return string(characters[:max(columns-1, 0)]) + "…"
}

// padLine cuts a line to a number of columns, or fills it with spaces.
func padLine(line string, columns int) string {
	line = cutLine(line, columns)
	return line + strings.Repeat(" ", columns-utf8.RuneCountInString(line))
}
