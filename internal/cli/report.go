// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/internal/download"
	"github.com/grapnel-dev/grapnel/internal/report"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// maxResultsBytes is how much of a results file is read. The operator stores at most results.MaxProblems errors, and as
// many warnings.
const maxResultsBytes = 256 << 20

// standardOutput is the path that means the standard output.
const standardOutput = "-"

// newReportCommand returns the command that writes a page about a run.
func (a *app) newReportCommand() *cobra.Command {
	var path string
	var overwrite bool
	command := &cobra.Command{
		Use: "report NAME", Short: "Write an HTML report on a Backup or Restore", Args: cobra.ExactArgs(1),
		Long: "Write an HTML page about a Backup or Restore: its timeline, problems, hooks, operations, objects and spec. The page\n" +
			"needs no other file and no network.\n\n" + runArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, k, r, err := a.connectToRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if path == "" {
				path = k.commandName() + "-" + r.GetName() + ".html"
			}
			if path != standardOutput {
				if err := checkOverwrite(path, overwrite); err != nil {
					return err
				}
			}
			page, err := a.writeReport(cmd.Context(), c, k, r)
			if err != nil {
				return err
			}
			if path == standardOutput {
				_, err := io.Copy(a.out.raw, page) // the report has no control characters
				return err
			}
			size, err := saveFile(path, page)
			if err != nil {
				return err
			}
			return a.out.printf("%s: %d bytes\n", path, size)
		},
	}
	command.Flags().StringVarP(&path, "output", "o", "", "path of the file, or - for the standard output (default KIND-NAME.html)")
	command.Flags().BoolVar(&overwrite, "force", false, "overwrite an existing file")
	return command
}

// writeReport returns the page about a run.
func (a *app) writeReport(ctx context.Context, c *connection, k runKind, r run) (io.Reader, error) {
	hooks, operations, err := c.listChildren(ctx, k, r)
	if err != nil {
		return nil, err
	}
	written := &report.Report{Kind: k.kind, Run: r, HookRuns: hooks, Operations: operations, Version: a.version}
	written.Results, err = c.readResults(ctx, k, r.GetName())
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		written.Note = explainMissingResults(r, err)
		if _, err := fmt.Fprintln(a.errOut, written.Note); err != nil {
			return nil, err
		}
	}
	written.Now = time.Now()
	var page bytes.Buffer
	return &page, written.Write(&page)
}

// readResults reads the results file of a run.
func (c *connection) readResults(ctx context.Context, k runKind, name string) (*results.Results, error) {
	var read results.Results
	err := c.withFile(ctx, k.results, name, false, func(file io.Reader) error {
		return json.NewDecoder(io.LimitReader(file, maxResultsBytes)).Decode(&read)
	})
	if err != nil {
		return nil, err
	}
	return &read, nil
}

// explainMissingResults says why a report has no objects and only the first problems. It is written all the same: its
// reader may not have the right to read results, or want to know why a run has none.
func explainMissingResults(r run, err error) string {
	const missing = "The report has no objects by kind, and only the first problems: "
	if refused, ok := errors.AsType[*download.Error](err); ok && refused.Code == http.StatusNotFound {
		if isFinished(r) {
			return missing + "the run has no results file."
		}
		return missing + "the results are stored when the run ends."
	}
	return missing + err.Error()
}
