// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/text"
)

// The sizes of the SVG, in pixels. Times are percentages of its width, so that a page can make it as wide as itself.
const (
	svgSectionHeight = 52
	svgRowHeight     = 34
	svgMargin        = 12
	svgTicks         = 4
	// maxMiddlePercent is where the label of a tick no longer fits on both of its sides on a phone.
	maxMiddlePercent = 88
	// minVisiblePercent is the width below which a bar has minVisibleWidth instead.
	minVisiblePercent = 0.4
	minVisibleWidth   = "3"
)

//go:embed timeline.svg.tmpl
var svgSource string

//go:embed timeline.html.tmpl
var pageSource string

var (
	svgTemplate  = template.Must(template.New("timeline.svg").Parse(svgSource))
	pageTemplate = template.Must(template.New("timeline.html").Parse(pageSource))
)

// svgPicture is what the template of the SVG gets.
type svgPicture struct {
	Title, Description string
	Height             int
	Sections           []svgSection
}

type svgSection struct {
	Name           string
	Y              int
	Ticks          []svgTick
	TickY1, TickY2 int
	Rows           []svgRow
}

type svgTick struct {
	Label, X, Anchor string
}

type svgRow struct {
	Y, Indent       int
	Label, Duration string
	// Tooltip is the label, which the picture may cut, with its times.
	Tooltip string
	State   State
	Bars    []svgBar
}

type svgBar struct {
	X, Width string
	State    State
}

// DrawSVG returns an SVG element. It has no scripts, and refers to nothing else.
func (t *Timeline) DrawSVG() (template.HTML, error) {
	picture := svgPicture{Title: t.titleText(), Description: t.describeTotal()}
	y := svgMargin
	for _, section := range t.Sections {
		drawn := svgSection{Name: section.Name, Y: y, Ticks: t.svgTicks()}
		y += svgSectionHeight
		drawn.TickY1 = y - svgMargin
		for i := range section.Rows {
			row := t.newSVGRow(&section.Rows[i], y)
			drawn.Rows = append(drawn.Rows, row)
			picture.Description += "; " + row.Tooltip
			y += svgRowHeight
		}
		drawn.TickY2 = y - svgMargin/2
		picture.Sections = append(picture.Sections, drawn)
	}
	picture.Height = y + svgMargin
	var svg strings.Builder
	if err := svgTemplate.Execute(&svg, picture); err != nil {
		return "", fmt.Errorf("drawing the timeline: %w", err)
	}
	return template.HTML(text.StripControl(svg.String())), nil //nolint:gosec // the template has escaped it
}

// DrawPage returns an HTML page with the SVG.
func (t *Timeline) DrawPage() (string, error) {
	svg, err := t.DrawSVG()
	if err != nil {
		return "", err
	}
	var page strings.Builder
	err = pageTemplate.Execute(&page, map[string]any{"Title": t.titleText(), "Total": t.describeTotal(), "SVG": svg})
	if err != nil {
		return "", fmt.Errorf("writing the page: %w", err)
	}
	return text.StripControl(page.String()), nil
}

func (t *Timeline) titleText() string { return t.Name + ": " + string(t.Phase) }

// newSVGRow returns a row at a height.
func (t *Timeline) newSVGRow(r *Row, y int) svgRow {
	row := svgRow{Y: y, Label: r.describeRow(), Duration: r.durationText(), Tooltip: r.describeRow(), State: r.State}
	if r.IsAttempt {
		row.Indent = svgMargin
	}
	if n := len(r.Spans); n > 0 {
		row.Tooltip += fmt.Sprintf(", %s, began after %s", row.Duration, FormatDuration(r.Spans[0].Start.Sub(t.Start)))
	}
	for _, span := range r.Spans {
		x, end := t.percentOf(span.Start.Sub(t.Start)), t.percentOf(span.End.Sub(t.Start))
		bar := svgBar{X: fmt.Sprintf("%.3f%%", min(x, 100-minVisiblePercent)), Width: minVisibleWidth, State: span.State}
		if end-x > minVisiblePercent {
			bar.Width = fmt.Sprintf("%.3f%%", end-x)
		}
		row.Bars = append(row.Bars, bar)
	}
	return row
}

func (t *Timeline) svgTicks() []svgTick {
	var ticks []svgTick
	for _, tick := range t.chooseTicks(svgTicks) {
		x := t.percentOf(tick)
		anchor := "middle"
		switch {
		case tick == 0:
			anchor = "start"
		case x > maxMiddlePercent:
			anchor = "end"
		}
		ticks = append(ticks, svgTick{Label: formatTick(tick), X: fmt.Sprintf("%.3f%%", x), Anchor: anchor})
	}
	return ticks
}

// percentOf returns which part of the run a time since its start is.
func (t *Timeline) percentOf(since time.Duration) float64 {
	if t.Elapsed() <= 0 {
		return 0
	}
	return 100 * float64(since) / float64(t.Elapsed())
}
