// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/download"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// runArgument documents the argument of commands that take a run.
const runArgument = "NAME is that of a Backup or, if there is none, of a Restore; backup/NAME and restore/NAME are unambiguous."

// newLogsCommand returns the command that prints the log of a run.
func (a *app) newLogsCommand() *cobra.Command {
	var follow, hooksOnly bool
	command := &cobra.Command{
		Use: "logs NAME", Short: "Print the log of a Backup or Restore", Args: cobra.ExactArgs(1),
		Long: "Print the log of a Backup or Restore and its hooks, also while it runs.\n\n" + runArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, k, r, err := a.connectToRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			printLog := a.out.copyText
			if hooksOnly {
				printLog = a.printHookLines
			}
			if follow {
				err = c.followLog(cmd.Context(), k, r.GetName(), printLog)
			} else {
				err = c.withFile(cmd.Context(), k.log, r.GetName(), false, printLog)
			}
			if err != nil {
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

// followLog prints the log of a run until the run has ended. It continues where it was when the connection breaks, or
// another operator takes over.
func (c *connection) followLog(ctx context.Context, k runKind, name string, printLog func(io.Reader) error) error {
	hasLog := func(r run) bool { return r.Run().StartTimestamp != nil || isFinished(r) }
	var printed byteCounter
	for {
		r, err := c.watchRunUntil(ctx, k, name, hasLog, nil)
		if err != nil {
			return err
		}
		running := r == nil || !isFinished(r)
		if r != nil {
			err = c.withFile(ctx, k.log, name, running, func(log io.Reader) error {
				if _, err := io.CopyN(io.Discard, log, int64(printed)); err != nil {
					return err
				}
				return printLog(io.TeeReader(log, &printed))
			})
		}
		if ctx.Err() != nil || !running || (err != nil && !isInterruption(err)) {
			return cmp.Or(ctx.Err(), err)
		}
		if err := rawclient.Sleep(ctx, rewatchInterval); err != nil {
			return err
		}
	}
}

// isInterruption reports whether a log may continue although reading it failed: the connection broke, the operator was
// replaced, or it has not logged anything yet.
func isInterruption(err error) bool {
	if refused, ok := errors.AsType[*download.Error](err); ok {
		return refused.Code == http.StatusNotFound || refused.Code >= http.StatusInternalServerError
	}
	_, isNetwork := errors.AsType[net.Error](err)
	return isNetwork || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// byteCounter counts bytes that are written to it.
type byteCounter int64

// Write implements io.Writer.
func (c *byteCounter) Write(p []byte) (int, error) {
	*c += byteCounter(len(p))
	return len(p), nil
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
			if err := output.checkFormat(outputTable, outputJSON, outputYAML); err != nil {
				return err
			}
			c, k, r, err := a.connectToRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.withFile(cmd.Context(), k.results, r.GetName(), false, func(file io.Reader) error {
				if output.format != outputTable {
					return a.copyJSON(file, output)
				}
				return writeResults(a.out, file)
			})
		},
	}
	output.bindFlags(command, outputTable, "output format: table, json or yaml")
	return command
}

// writeResults writes a results file as text.
func writeResults(out io.Writer, file io.Reader) error {
	var all results.Results
	if err := json.NewDecoder(file).Decode(&all); err != nil {
		return err
	}
	for _, list := range []struct {
		severity v1alpha1.ProblemSeverity
		problems results.Problems
	}{{v1alpha1.ProblemSeverityError, all.Errors}, {v1alpha1.ProblemSeverityWarning, all.Warnings}} {
		for _, p := range list.problems {
			if _, err := fmt.Fprintf(out, "%s %s: %s\n", list.severity, p.Reason, p.Message); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(out, "%s, %s\n", text.Pluralize(int64(len(all.Errors)), "error"), text.Pluralize(int64(len(all.Warnings)), "warning"))
	return err
}
