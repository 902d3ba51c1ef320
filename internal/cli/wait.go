// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// notSeenText is shown while the operator has not reconciled an object.
const notSeenText = "not seen by the operator yet; if that lasts, run kubectl grapnel doctor"

// rewatchInterval is the time between two watches: an API server ends each of them some time.
const rewatchInterval = time.Second

// waitFlags are the flags of commands that can wait for a run.
type waitFlags struct {
	enabled bool
	timeout time.Duration
}

func (w *waitFlags) bindFlags(command *cobra.Command, usage string) {
	command.Flags().BoolVarP(&w.enabled, "wait", "w", false, usage+"; Ctrl-C ends only the waiting")
	w.bindTimeout(command)
}

func (w *waitFlags) bindTimeout(command *cobra.Command) {
	command.Flags().DurationVar(&w.timeout, "timeout", 0, "how long to wait; 0 means no limit")
}

// newWaitCommand returns the command that waits for the end of a run.
func (a *app) newWaitCommand(k runKind) *cobra.Command {
	var wait waitFlags
	command := &cobra.Command{
		Use: "wait NAME", Short: "Wait until a " + k.kind + " has ended, and show its progress", Args: cobra.ExactArgs(1),
		Long: "Wait until a " + k.kind + " has ended, with everything that it owes, and show its progress.\n\n" +
			"The exit code is 0 for Completed, 2 for PartiallyFailed, and 1 otherwise.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := c.getRun(cmd.Context(), k, args[0]); err != nil {
				return err
			}
			return a.waitForRun(cmd.Context(), c, k, args[0], wait)
		},
	}
	wait.bindTimeout(command)
	return command
}

// waitForRun waits until a run has ended, and shows its progress. The error has the exit code of its outcome.
func (a *app) waitForRun(ctx context.Context, c *connection, k runKind, name string, wait waitFlags) error {
	if wait.timeout > 0 {
		timeout := fmt.Errorf("%s %s has not ended after %s, and continues; %s", k.kind, name, wait.timeout, k.adviceWhileRunning(name))
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wait.timeout, timeout)
		defer cancel()
	}
	ended, err := a.waitForEnd(ctx, c, k, name)
	switch {
	case ctx.Err() != nil:
		return interruptedError(ctx, k, name)
	case err != nil:
		return err
	}
	return a.reportOutcome(k, ended)
}

// interruptedError says what happens to a run that the command no longer waits for.
func interruptedError(ctx context.Context, k runKind, name string) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return &exitError{exitFailure, fmt.Sprintf("interrupted; %s %s continues: %s", k.kind, name, k.adviceWhileRunning(name))}
}

// watchRunUntil watches a run until it is as wanted. It returns nil if the watch ended before. Unless show is nil,
// it gets the run after each change.
func (c *connection) watchRunUntil(ctx context.Context, k runKind, name string, wanted func(run) bool, show func(run)) (run, error) {
	return watchUntil(ctx, c, k.newList(), k.kind, name, wanted, show)
}

// watchUntil is watchRunUntil for an object of any kind.
func watchUntil[T client.Object](
	ctx context.Context, c *connection, list client.ObjectList, kind, name string, wanted func(T) bool, show func(T),
) (found T, err error) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	changes, err := c.Watch(ctx, list, client.InNamespace(c.namespace), client.MatchingFieldsSelector{Selector: selector})
	if err != nil {
		return found, err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		o, ok := change.Object.(T)
		switch {
		case change.Type == watch.Deleted:
			return found, fmt.Errorf("%s %s was deleted", kind, name)
		case ok && wanted(o):
			return o, nil
		case ok && show != nil:
			show(o)
		}
	}
	return found, ctx.Err()
}

// reportOutcome prints the outcome of a run with its first problems.
func (a *app) reportOutcome(k runKind, r run) error {
	status := r.Run()
	if err := a.out.printPhase(k.kind+" "+r.GetName()+": ", r.GetPhase(), " ("+status.Message+")"); err != nil {
		return err
	}
	if err := a.printProblems(status.Problems); err != nil {
		return err
	}
	if hidden := status.Errors + status.Warnings - int64(len(status.Problems)); hidden > 0 {
		if err := a.out.printf("  and %d more: %s\n", hidden, k.adviceForProblems(r)); err != nil {
			return err
		}
	}
	for _, c := range r.GetConditions() {
		if c.Type == v1alpha1.ConditionCleanupOwed && c.Status == metav1.ConditionTrue {
			return &exitError{exitFailure, fmt.Sprintf("clean-up is owed: %s", c.Message)}
		}
	}
	return exitErrorForPhase(r.GetPhase())
}

// printProblems prints the problems of a status.
func (a *app) printProblems(problems []v1alpha1.Problem) error {
	for _, p := range problems {
		if err := a.out.printf("  %s %s: %s\n", p.Severity, p.Reason, p.Message); err != nil {
			return err
		}
	}
	return nil
}

// exitErrorForPhase returns the error with the exit code of a phase; nil for Completed.
func exitErrorForPhase(phase v1alpha1.RunPhase) error {
	switch phase {
	case v1alpha1.RunPhaseCompleted:
		return nil
	case v1alpha1.RunPhasePartiallyFailed:
		return &exitError{code: exitPartialFailure}
	default:
		return &exitError{code: exitFailure}
	}
}

// ignoreCanceled turns the failure of a run that was canceled on request into a success.
func ignoreCanceled(err error) error {
	if exit, ok := errors.AsType[*exitError](err); ok && exit.message == "" {
		return nil
	}
	return err
}

// progressText says in one line what a run does, how far it is, and since when.
func progressText(r run) string {
	status := r.Run()
	parts := []string{string(r.GetPhase())}
	if r.GetPhase() == "" {
		parts[0] = notSeenText
	}
	if status.Message != "" {
		parts = append(parts, status.Message)
	}
	if done, total := itemCounts(r); total > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d objects", done, total))
	}
	if o := status.Operations; o != nil && o.Attempted > 0 {
		parts = append(parts, fmt.Sprintf("operations %d %%", o.Percent))
	}
	if status.StartTimestamp != nil {
		parts = append(parts, "since "+status.StartTimestamp.Local().Format(time.TimeOnly))
	}
	return strings.Join(parts, ", ")
}

// itemCounts returns how many objects a run has processed, and how many there are.
func itemCounts(r run) (done, total int64) {
	switch o := r.(type) {
	case *v1alpha1.Backup:
		if p := o.Status.Progress; p != nil {
			return p.ItemsBackedUp, p.TotalItems
		}
	case *v1alpha1.Restore:
		if p := o.Status.Progress; p != nil {
			return p.ItemsRestored, p.TotalItems
		}
	}
	return 0, 0
}

// progressPrinter shows one changing line on a terminal, and one line for each change otherwise.
type progressPrinter struct {
	out  *terminal
	last string
}

func (p *progressPrinter) show(line string) {
	if line == p.last {
		return
	}
	p.last = line
	if p.out.isTerminal {
		_, _ = fmt.Fprint(p.out.raw, "\r\x1b[K"+truncateToWidth(text.StripControl(strings.ReplaceAll(line, "\n", " ")), p.out.width()))
		return
	}
	_ = p.out.printf("%s\n", strings.ReplaceAll(line, "\n", " "))
}

// end removes the line from a terminal.
func (p *progressPrinter) end() {
	if p.out.isTerminal && p.last != "" {
		_, _ = fmt.Fprint(p.out.raw, "\r\x1b[K")
	}
	p.last = ""
}

// truncateToWidth truncates a text to a number of columns.
func truncateToWidth(text string, columns int) string {
	characters := []rune(text)
	if columns <= 0 || len(characters) < columns {
		return text
	}
	return string(characters[:columns-1])
}
