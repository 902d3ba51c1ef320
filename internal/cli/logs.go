// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/download"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// runArgument documents the argument of commands that take a run.
const runArgument = "NAME is that of a Backup or Restore, or backup/NAME or restore/NAME."

// newLogsCommand returns the command that prints the log of a run.
func (a *app) newLogsCommand() *cobra.Command {
	var follow, hooksOnly bool
	command := &cobra.Command{
		Use: "logs NAME", Short: "Print the log of a Backup or Restore", Args: cobra.ExactArgs(1),
		Long: "Print the log of a Backup or Restore and its hooks, also while it runs.\n\n" + runArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			k, r, err := c.findRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			printLog := a.out.copyText
			if hooksOnly {
				printLog = a.printHookLines
			}
			if follow {
				if err := c.waitForLog(cmd.Context(), k, r); err != nil {
					return err
				}
			}
			if err := c.withFile(cmd.Context(), k.log, r.GetName(), follow, printLog); err != nil {
				return err
			}
			return ignoreNoFile(c.withFile(cmd.Context(), k.postLog, r.GetName(), false, printLog))
		},
	}
	command.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines until the run has ended")
	command.Flags().BoolVar(&hooksOnly, "hooks", false, "only what hooks log and print")
	return command
}

// withFile opens a file of a run for a function.
func (c *connection) withFile(ctx context.Context, kind v1alpha1.DownloadTargetKind, name string, follow bool, use func(io.Reader) error) error {
	file, err := c.downloads.Open(ctx, v1alpha1.DownloadTarget{Kind: kind, Name: name}, follow)
	if err != nil {
		return err
	}
	return errors.Join(use(file), file.Close())
}

// ignoreNoFile ignores that there is no such file.
func ignoreNoFile(err error) error {
	if refused, ok := errors.AsType[*download.Error](err); ok && refused.Code == http.StatusNotFound {
		return nil
	}
	return err
}

// waitForLog waits until a run has begun, and so has a log.
func (c *connection) waitForLog(ctx context.Context, k runKind, r run) error {
	for r.Run().StartTimestamp == nil && !isFinished(r) {
		ended, err := c.watchRunUntil(ctx, k, r.GetName(), func(r run) bool { return r.Run().StartTimestamp != nil || isFinished(r) }, nil)
		if err != nil || ended != nil {
			return err
		}
	}
	return nil
}

// printHookLines prints the lines of a log that are about hooks.
func (a *app) printHookLines(log io.Reader) error {
	const maxLine = 1 << 20
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), " hook=") {
			continue
		}
		if err := a.out.printf("%s\n", lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// newResultsCommand returns the command that prints all problems of a run.
func (a *app) newResultsCommand() *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use: "results NAME", Short: "Print all warnings and errors of a Backup or Restore", Args: cobra.ExactArgs(1),
		Long: "Print all warnings and errors of a Backup or Restore.\n\n" + runArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			k, r, err := c.findRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.withFile(cmd.Context(), k.results, r.GetName(), false, func(file io.Reader) error {
				if output.format == outputJSON {
					return a.out.copyText(file)
				}
				return a.printResults(file)
			})
		},
	}
	output.bind(command, outputTable, "output format: table or json")
	return command
}

// printResults prints a results file.
func (a *app) printResults(file io.Reader) error {
	var all results.Results
	if err := json.NewDecoder(file).Decode(&all); err != nil {
		return err
	}
	for _, list := range []struct {
		severity v1alpha1.ProblemSeverity
		problems results.Problems
	}{{v1alpha1.ProblemSeverityError, all.Errors}, {v1alpha1.ProblemSeverityWarning, all.Warnings}} {
		for _, p := range list.problems {
			if err := a.out.printf("%s %s: %s\n", list.severity, p.Reason, p.Message); err != nil {
				return err
			}
		}
	}
	return a.out.printf("%d errors, %d warnings\n", len(all.Errors), len(all.Warnings))
}
