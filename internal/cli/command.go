// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// The exit codes.
const (
	exitSuccess = iota
	exitFailure
	exitPartialFailure
)

// exitError ends the program with an exit code. Its message was printed already if it is empty.
type exitError struct {
	code    int
	message string
}

// Error implements error.
func (e *exitError) Error() string { return e.message }

// app is what all commands share.
type app struct {
	out, errOut *terminal
	flags       *genericclioptions.ConfigFlags
	version     string
}

// Run executes a command line, and returns its exit code. It prints an error to streams.ErrOut.
func Run(ctx context.Context, streams genericiooptions.IOStreams, version string, args []string) int {
	a := &app{
		out: newTerminal(streams.Out), errOut: newTerminal(streams.ErrOut),
		flags: genericclioptions.NewConfigFlags(true), version: version,
	}
	a.flags.CacheDir = nil     // nothing is cached
	root := a.newRootCommand() //nolint:contextcheck // the commands get the context from cobra
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitSuccess
	}
	code := exitFailure
	if exit, ok := errors.AsType[*exitError](err); ok {
		code = exit.code
	}
	if message := a.explainError(ctx, err); message != "" {
		_, _ = fmt.Fprintln(a.errOut, "Error: "+message)
	}
	return code
}

// newRootCommand returns the command with all its subcommands.
func (a *app) newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-grapnel",
		Short: "Back up and restore clusters with Grapnel",
		Long: "Back up and restore clusters with Grapnel.\n\n" +
			"Backups and Restores are in the namespace of the operator: that of --namespace, or of the variable\n" +
			namespaceVariable + ", or " + defaultNamespace + ".",
		SilenceErrors: true, SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl grapnel"},
	}
	a.flags.AddFlags(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: "objects", Title: "Objects:"}, &cobra.Group{ID: "files", Title: "Files of a run:"})
	for _, command := range []*cobra.Command{
		a.newRunCommand(backups, a.newCreateBackupCommand(), a.newDeleteBackupCommand()),
		a.newRunCommand(restores, a.newCreateRestoreCommand(), a.newDeleteRestoreCommand()),
		a.newHookCommand(), a.newScheduleCommand(), a.newLocationCommand(), a.newPluginCommand(),
	} {
		command.GroupID = "objects"
		root.AddCommand(command)
	}
	for _, command := range []*cobra.Command{
		a.newLogsCommand(), a.newResultsCommand(), a.newListCommand(), a.newCatCommand(), a.newDownloadCommand(), a.newFindCommand(),
	} {
		command.GroupID = "files"
		root.AddCommand(command)
	}
	root.AddCommand(
		newGroupCommand("plan", "Show what a Backup or Restore would do, without doing it", a.newPlanBackupCommand(), a.newPlanRestoreCommand()),
		a.newDiffCommand(), a.newTreeCommand(),
		a.newMigrateCommand(),
		a.newDoctorCommand(),
		a.newSupportBundleCommand(),
		a.newTimelineCommand(),
		a.newReportCommand(),
		a.newVersionCommand(),
	)
	return root
}

// newVersionCommand returns the command that prints the version.
func (a *app) newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.out.printf("kubectl-grapnel %s\n", a.version) },
	}
}

// newGroupCommand returns a command that only has subcommands.
func newGroupCommand(use, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use: use, Short: short, DisableFlagsInUseLine: true,
		// Without it, cobra prints the help for an unknown command, and the exit code is 0.
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q; run %s --help", args[0], cmd.CommandPath())
			}
			return cmd.Help()
		},
	}
	group.AddCommand(commands...)
	return group
}
