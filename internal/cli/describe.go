// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/intervention"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// newDescribeCommand returns the command that shows what became of a run.
func (a *app) newDescribeCommand(k runKind) *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME", Short: "Show what became of a " + k.kind + ", its problems and its hooks", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			r, err := c.getRun(cmd.Context(), k, args[0])
			if err != nil {
				return err
			}
			hooks, err := c.listHookRuns(cmd.Context(), k, r)
			if err != nil {
				return err
			}
			return a.describeRun(k, r, hooks)
		},
	}
}

// listHookRuns returns the HookRuns of a run, in the order in which they were called. Those that were not called yet
// come last.
func (c *connection) listHookRuns(ctx context.Context, k runKind, r run) ([]v1alpha1.HookRun, error) {
	var list v1alpha1.HookRunList
	label := client.MatchingLabels{k.label: names.LabelValue(r.GetName())}
	if err := c.List(ctx, &list, client.InNamespace(c.namespace), label); err != nil {
		return nil, err
	}
	hooks := slices.DeleteFunc(list.Items, func(h v1alpha1.HookRun) bool { return h.Spec.ParentRef.UID != string(r.GetUID()) })
	slices.SortStableFunc(hooks, func(x, y v1alpha1.HookRun) int {
		a, b := firstCallTime(&x), firstCallTime(&y)
		switch {
		case a == nil && b == nil:
			return strings.Compare(x.Name, y.Name)
		case a == nil:
			return 1
		case b == nil:
			return -1
		}
		return cmp.Or(a.Compare(*b), strings.Compare(x.Name, y.Name))
	})
	return hooks, nil
}

// firstCallTime returns when a HookRun began; nil if it has not. Only the attempts have fractions of seconds, but old
// ones are not listed.
func firstCallTime(h *v1alpha1.HookRun) *time.Time {
	switch {
	case h.Status.StartTimestamp == nil:
		return nil
	case len(h.Status.Attempts) > 0 && h.Status.Attempts[0].Number == 1:
		return &h.Status.Attempts[0].StartTimestamp.Time
	}
	return &h.Status.StartTimestamp.Time
}

// description is a text of labeled lines.
type description struct {
	out *terminal
	err error
}

// printLine prints a label and a value, unless the value is empty.
func (d *description) printLine(label, value string) {
	if value != "" && d.err == nil {
		d.err = d.out.printf("%-14s%s\n", label+":", value)
	}
}

func (d *description) printf(format string, args ...any) {
	if d.err == nil {
		d.err = d.out.printf(format, args...)
	}
}

// describeRun prints what became of a run.
func (a *app) describeRun(k runKind, r run, hooks []v1alpha1.HookRun) error {
	status := r.Run()
	d := &description{out: a.out}
	d.printLine(k.kind, r.GetName())
	if d.err == nil {
		d.err = a.out.printPhase(fmt.Sprintf("%-14s", "Phase:"), cmp.Or(r.GetPhase(), "not seen by the operator yet"), "")
	}
	d.printLine("Message", status.Message)
	d.printLine("Started", describeTime(status.StartTimestamp))
	d.printLine("Ended", describeEnd(status))
	if done, total := itemCounts(r); total > 0 {
		d.printLine("Objects", fmt.Sprintf("%d of %d", done, total))
	}
	d.printSpecifics(r)
	if o := status.Operations; o != nil && o.Attempted > 0 {
		d.printLine("Operations", fmt.Sprintf("%d: %d completed, %d failed, %d canceled (%d %%)", o.Attempted, o.Completed, o.Failed, o.Cancelled, o.Percent))
	}
	for _, text := range status.ValidationErrors {
		d.printLine("Invalid", text)
	}
	d.printProblems(k, r)
	d.printHooks(hooks)
	if conditionStatus(r, v1alpha1.ConditionCleanupOwed) == metav1.ConditionTrue {
		d.printf("\nClean-up is owed: kubectl describe %s.%s %s -n %s\n", k.resource, v1alpha1.GroupVersion.Group, r.GetName(), r.GetNamespace())
	}
	d.printf("\nLog: kubectl grapnel logs %s/%s\n", k.commandName(), r.GetName())
	return d.err
}

// describeExpiration returns when a Backup expires, and whether only a default says so.
func describeExpiration(b *v1alpha1.Backup) string {
	text := describeTime(b.Status.Expiration)
	if text != "" && b.Spec.TTL == nil && b.Status.DefaultTTL != nil {
		text += fmt.Sprintf(" (by default: it has no ttl, and the default was %s)", b.Status.DefaultTTL.Duration)
	}
	return text
}

// printSpecifics prints what only Backups or only Restores have.
func (d *description) printSpecifics(r run) {
	switch o := r.(type) {
	case *v1alpha1.Backup:
		d.printLine("Location", cmp.Or(o.Location(), o.Spec.StorageLocation))
		d.printLine("Expires", describeExpiration(o))
		if o.Spec.ImportedFrom != nil {
			d.printLine("Imported", "from another cluster or system")
		}
		d.printLine("Namespaces", describePatterns(o.Spec.IncludedNamespaces, o.Spec.ExcludedNamespaces))
	case *v1alpha1.Restore:
		d.printLine("Backup", cmp.Or(o.Status.BackupName, o.Spec.BackupName))
		d.printLine("Location", o.Status.StorageLocation)
		if o.Spec.DryRun {
			d.printLine("Dry run", "nothing was written")
		}
		if n := o.Status.Counts; n != nil {
			d.printLine("Outcomes", fmt.Sprintf("%d created, %d updated, %d recreated, %d unchanged, %d skipped, %d failed",
				n.Created, n.Updated, n.Recreated, n.Unchanged, n.Skipped, n.Failed))
		}
		d.printLine("Namespaces", describePatterns(o.Spec.IncludedNamespaces, o.Spec.ExcludedNamespaces))
	}
}

// printProblems prints the first problems.
func (d *description) printProblems(k runKind, r run) {
	status := r.Run()
	if status.Errors+status.Warnings == 0 && len(status.Problems) == 0 {
		return
	}
	d.printf("\n%s, %s\n", text.Pluralize(status.Errors, "error"), text.Pluralize(status.Warnings, "warning"))
	for _, p := range status.Problems {
		d.printf("  %s %s: %s\n", p.Severity, p.Reason, p.Message)
	}
	if hidden := status.Errors + status.Warnings - int64(len(status.Problems)); hidden > 0 {
		d.printf("  and %d more: kubectl grapnel results %s/%s\n", hidden, k.commandName(), r.GetName())
	}
}

// printHooks prints the hooks in the order in which they ran.
func (d *description) printHooks(hooks []v1alpha1.HookRun) {
	if len(hooks) == 0 {
		return
	}
	d.printf("\nHooks\n")
	for i := range hooks {
		h := &hooks[i]
		d.printf("  %-12s %s: %s", h.Spec.Hook, h.Spec.ActionName, cmp.Or(string(h.Status.Phase), "not called"))
		if h.Status.Duration != "" {
			d.printf(", %s", h.Status.Duration)
		}
		if h.Status.Attempt > 1 {
			d.printf(", attempt %d", h.Status.Attempt)
		}
		if h.Status.Message != "" {
			d.printf(" (%s)", h.Status.Message)
		}
		d.printf("\n")
		if last := h.Status.LastIntervention; last != nil && !intervention.IsSkipped(h) {
			d.printf("    %s, %s\n", last.Message, describeTime(&last.HandledTimestamp))
		}
		if intervention.RefusalReason(h, v1alpha1.HookInterventionRetry) == "" {
			d.printf("    To retry it now: kubectl grapnel hook retry %s --reason TEXT\n", h.Name)
			if h.Spec.Owed {
				d.printf("    To abandon it: kubectl grapnel hook skip %s --reason TEXT\n", h.Name)
			}
		}
	}
}

// describeTime returns a time with its distance from now; empty if there is none.
func describeTime(at *metav1.Time) string {
	if at == nil {
		return ""
	}
	text := at.Local().Format("2006-01-02 15:04:05 MST")
	if since := time.Since(at.Time); since >= 0 {
		return text + " (" + duration.HumanDuration(since) + " ago)"
	}
	return text + " (in " + duration.HumanDuration(time.Until(at.Time)) + ")"
}

// describeEnd returns when a run ended, and how long it took.
func describeEnd(status *v1alpha1.RunStatus) string {
	text := describeTime(status.CompletionTimestamp)
	if text != "" && status.StartTimestamp != nil {
		text += ", took " + status.CompletionTimestamp.Sub(status.StartTimestamp.Time).String()
	}
	return text
}

// describePatterns returns which namespaces are included.
func describePatterns(included, excluded []v1alpha1.NamePattern) string {
	text := "all"
	if len(included) > 0 {
		text = joinPatterns(included)
	}
	if len(excluded) > 0 {
		text += ", not " + joinPatterns(excluded)
	}
	return text
}

func joinPatterns(patterns []v1alpha1.NamePattern) string {
	var texts []string
	for _, p := range patterns {
		texts = append(texts, string(p))
	}
	return strings.Join(texts, ", ")
}

// newDescribeObjectCommand returns the command that shows an object that is no run.
func (a *app) newDescribeObjectCommand(kind string, newObject func() objectAndList) *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME", Short: "Show a " + kind, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			found := newObject()
			if err := c.getObject(cmd.Context(), kind, args[0], found.object, found.list); err != nil {
				return err
			}
			d := &description{out: a.out}
			d.printLine(strings.TrimPrefix(kind, "BackupStorage"), args[0])
			switch o := found.object.(type) {
			case *v1alpha1.Schedule:
				d.printSchedule(o)
			case *v1alpha1.BackupStorageLocation:
				d.printLocation(o)
			case *v1alpha1.Plugin:
				d.printPlugin(o)
			}
			return d.err
		},
	}
}

func (d *description) printSchedule(s *v1alpha1.Schedule) {
	d.printLine("Phase", string(s.Status.Phase))
	d.printLine("Message", s.Status.Message)
	d.printLine("Cron", s.Spec.Schedule+" "+cmp.Or(s.Spec.TimeZone, "UTC"))
	d.printLine("Next", describeTime(s.Status.NextScheduleTime))
	d.printLine("Last", describeTime(s.Status.LastScheduleTime))
	d.printLine("Last backup", s.Status.LastBackup)
	d.printLine("Last success", describeTime(s.Status.LastSuccessfulTime))
	d.printLine("Last request", strings.TrimSpace(s.Status.LastHandledRunRequest+" "+cmp.Or(s.Status.LastRunRequestMessage, s.Status.LastRequestedBackup)))
	d.printLine("Last skipped", strings.TrimSpace(describeTime(s.Status.LastSkippedTime)+" "+s.Status.LastSkippedReason))
	d.printLine("Namespaces", describePatterns(s.Spec.Template.Spec.IncludedNamespaces, s.Spec.Template.Spec.ExcludedNamespaces))
}

func (d *description) printLocation(l *v1alpha1.BackupStorageLocation) {
	d.printLine("Phase", string(l.Status.Phase))
	d.printLine("Message", l.Status.Message)
	switch {
	case l.Spec.Filesystem != nil:
		d.printLine("Directory", cmp.Or(l.Spec.Filesystem.Path, "."))
	case l.Spec.S3 != nil:
		d.printLine("Bucket", strings.TrimSpace(l.Spec.S3.Bucket+" "+l.Spec.S3.Endpoint))
	case l.Spec.Plugin != nil:
		d.printLine("Provider", l.Spec.Plugin.Provider)
		d.printLine("Bucket", l.Spec.Plugin.Bucket)
	}
	d.printLine("Prefix", l.Spec.Prefix)
	d.printLine("Access", string(l.Spec.AccessMode))
	if l.Spec.Default {
		d.printLine("Default", "yes")
	}
	d.printLine("Checked", describeTime(l.Status.LastValidationTime))
}

func (d *description) printPlugin(p *v1alpha1.Plugin) {
	for _, c := range p.Status.Conditions {
		d.printLine(c.Type, fmt.Sprintf("%s (%s) %s", c.Status, c.Reason, c.Message))
	}
	if p.Spec.Suspend {
		d.printLine("Suspended", "no new run uses it")
	}
}
