// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// newPlanBackupCommand returns the command that shows what a Backup would do.
func (a *app) newPlanBackupCommand() *cobra.Command {
	var spec backupSpecFlags
	var labels, annotations map[string]string
	var schedule string
	var output outputFlag
	command := &cobra.Command{
		Use: "backup", Short: "Show which hooks a Backup would run, and how many objects it would archive", Args: cobra.NoArgs,
		Long: "Show which hooks a Backup would run, in their order, and how many objects of each resource it would archive.\n" +
			"No action runs, and nothing is stored. Objects that actions would add are not counted.\n\n" +
			"The exit code is 0 if the Backup would be Completed as far as is known, 2 for PartiallyFailed, and 1 otherwise.",
		Example: "  kubectl grapnel plan backup --include-namespaces 'shop-*'\n" +
			"  kubectl grapnel plan backup --from-schedule nightly",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if schedule != "" {
				if err := spec.checkUnused(cmd); err != nil {
					return err
				}
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			planned, err := c.newBackup(cmd.Context(), &spec, schedule, []string{"plan"})
			if err != nil {
				return err
			}
			preview := &v1alpha1.BackupPreview{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "plan-"}}
			preview.Spec.Template.Spec = planned.Spec
			preview.Spec.Template.Metadata.Labels = convertValues[v1alpha1.LabelValue](mergeMaps(planned.Labels, labels))
			preview.Spec.Template.Metadata.Annotations = convertValues[v1alpha1.ParameterValue](mergeMaps(planned.Annotations, annotations))
			if err := c.Create(cmd.Context(), preview); err != nil {
				return err
			}
			ended, err := a.waitForPreview(cmd.Context(), c, preview.Name)
			if err == nil {
				err = a.printPreview(ended, output)
			}
			return errors.Join(err, c.deleteAfterUse(cmd.Context(), preview))
		},
	}
	spec.bindFlags(command)
	command.Flags().StringToStringVar(&labels, "labels", nil, "labels of the Backup; Plugins select runs by them")
	command.Flags().StringToStringVar(&annotations, "annotations", nil, "annotations of the Backup")
	command.Flags().StringVar(&schedule, "from-schedule", "", "use the template of this Schedule, without flags for the spec")
	output.bindFlags(command, outputTable, "output format: table, json or yaml")
	return command
}

// convertValues converts the values of a map to another type of string.
func convertValues[V ~string](values map[string]string) map[string]V {
	converted := make(map[string]V, len(values))
	for key, value := range values {
		converted[key] = V(value)
	}
	return converted
}

// waitForPreview waits until a BackupPreview is complete, and shows what it waits for.
func (a *app) waitForPreview(ctx context.Context, c *connection, name string) (*v1alpha1.BackupPreview, error) {
	shown := &progressPrinter{out: a.errOut}
	hasEnded := func(p *v1alpha1.BackupPreview) bool {
		return p.Status.Phase != "" && p.Status.Phase != v1alpha1.RunPhaseNew && p.Status.Phase != v1alpha1.RunPhaseInProgress
	}
	for {
		ended, err := watchUntil(ctx, c, &v1alpha1.BackupPreviewList{}, "BackupPreview", name, hasEnded, func(p *v1alpha1.BackupPreview) {
			shown.show(cmp.Or(p.Status.Message, notSeenText))
		})
		shown.end()
		if err != nil || ended != nil {
			return ended, err
		}
		if err := rawclient.Sleep(ctx, rewatchInterval); err != nil {
			return nil, err
		}
	}
}

// printPreview prints what a Backup would do. The error has the exit code.
func (a *app) printPreview(p *v1alpha1.BackupPreview, output outputFlag) error {
	if output.format != outputTable {
		p.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BackupPreview"))
		return cmp.Or(a.printObject(p, output), exitErrorForPhase(p.Status.Phase))
	}
	for line := range strings.Lines(formatPreviewTables(&p.Status)) {
		if err := a.out.printf("%s\n", strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	if p.Status.ArchiveBytes > 0 {
		if err := a.out.printf("\nThe archive in %s would have about %s.\n", p.Status.StorageLocation, humanize.IBytes(uint64(p.Status.ArchiveBytes))); err != nil {
			return err
		}
	}
	if err := a.out.printPhase("Plan: ", p.Status.Phase, " ("+p.Status.Message+")"); err != nil {
		return err
	}
	for _, problem := range p.Status.ValidationErrors {
		if err := a.out.printf("  %s\n", problem); err != nil {
			return err
		}
	}
	if err := a.printProblems(p.Status.Problems); err != nil {
		return err
	}
	return exitErrorForPhase(p.Status.Phase)
}

// formatPreviewTables returns the tables of the actions and the resources of a BackupPreview.
func formatPreviewTables(status *v1alpha1.BackupPreviewStatus) string {
	var lines strings.Builder
	table := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	// Writing to a strings.Builder does not fail.
	if len(status.Actions) > 0 {
		_, _ = fmt.Fprintln(table, "HOOK\tACTION\tPLUGIN\tTIMEOUT\tNOTE")
	}
	for i := range status.Actions {
		action := &status.Actions[i]
		timeout := ""
		if action.Timeout != nil {
			timeout = action.Timeout.Duration.String()
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", cmp.Or(string(action.Hook), "PerObject"), text.StripControl(action.ActionName), text.StripControl(action.Plugin),
			timeout, text.StripControl(describePreviewedAction(action)))
	}
	_ = table.Flush()
	if len(status.Resources) > 0 {
		if len(status.Actions) > 0 {
			_, _ = fmt.Fprintln(table)
		}
		_, _ = fmt.Fprintln(table, "RESOURCE\tOBJECTS\tSIZE")
	}
	for _, r := range slices.SortedStableFunc(slices.Values(status.Resources), func(a, b v1alpha1.PreviewedResource) int { return cmp.Compare(b.Objects, a.Objects) }) {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\n", r.Resource, r.Objects, humanize.IBytes(uint64(max(r.Bytes, 0))))
	}
	_ = table.Flush()
	return lines.String()
}

// describePreviewedAction says what is special about an action.
func describePreviewedAction(action *v1alpha1.PreviewedAction) string {
	if action.Skipped != "" {
		return "skipped: " + action.Skipped
	}
	var notes []string
	if action.Owed {
		notes = append(notes, "runs whatever happens")
	}
	switch {
	case action.Retries == 1:
		notes = append(notes, "1 retry")
	case action.Retries > 1:
		notes = append(notes, fmt.Sprintf("%d retries", action.Retries))
	}
	if action.RunAfter == v1alpha1.RunAfterDataCaptured {
		notes = append(notes, "as soon as all data is captured")
	}
	if len(action.RunOn) > 0 {
		outcomes := make([]string, len(action.RunOn))
		for i, outcome := range action.RunOn {
			outcomes[i] = string(outcome)
		}
		notes = append(notes, "only after "+strings.Join(outcomes, " or "))
	}
	return strings.Join(notes, ", ")
}
