// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/internal/timeline"
)

// The output formats of a timeline.
const (
	outputTerm = "term"
	outputSVG  = "svg"
	outputHTML = "html"
)

// defaultColumns is the width of a picture that is not printed to a terminal.
const defaultColumns = 80

// newTimelineCommand returns the command that shows a run over time.
func (a *app) newTimelineCommand() *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use: "timeline NAME", Short: "Show a Backup or Restore over time", Args: cobra.ExactArgs(1),
		Long: "Show when the stages, hooks, attempts and operations of a Backup or Restore ran, and how long.\n\n" + runArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch output.format {
			case outputTerm, outputSVG, outputHTML:
			default:
				return fmt.Errorf("unknown output format %q; use %s, %s or %s", output.format, outputTerm, outputSVG, outputHTML)
			}
			c, k, r, err := a.connectToRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			built, err := c.buildTimeline(cmd.Context(), k, r)
			if err != nil {
				return err
			}
			return a.printTimeline(built, output)
		},
	}
	output.bindFlags(command, outputTerm, "output format: term, svg or html")
	return command
}

// buildTimeline reads what belongs to a run.
func (c *connection) buildTimeline(ctx context.Context, k runKind, r run) (*timeline.Timeline, error) {
	hooks, operations, err := c.listChildren(ctx, k, r)
	if err != nil {
		return nil, err
	}
	built := timeline.Build(k.kind, r, hooks, operations, time.Now())
	return &built, nil
}

// printTimeline prints a timeline, from which its package has removed control characters.
func (a *app) printTimeline(t *timeline.Timeline, output outputFlag) error {
	switch output.format {
	case outputSVG:
		svg, err := t.DrawSVG()
		if err != nil {
			return err
		}
		_, err = io.WriteString(a.out.raw, string(svg))
		return err
	case outputHTML:
		page, err := t.DrawPage()
		if err != nil {
			return err
		}
		_, err = io.WriteString(a.out.raw, page)
		return err
	}
	if err := a.out.printPhase(t.Name+": ", t.Phase, ""); err != nil {
		return err
	}
	_, err := io.WriteString(a.out.raw, t.DrawTerminal(cmp.Or(a.out.width(), defaultColumns), a.out.hasColors()))
	return err
}
