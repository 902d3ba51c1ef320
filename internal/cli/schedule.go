// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// newScheduleCommand returns the command for Schedules.
func (a *app) newScheduleCommand() *cobra.Command {
	newObject := func() objectAndList { return objectAndList{&v1alpha1.Schedule{}, &v1alpha1.ScheduleList{}} }
	return newGroupCommand("schedule", "Create, run, pause and delete Schedules",
		a.newCreateScheduleCommand(),
		a.newGetCommand("Schedule", "schedules"),
		a.newDescribeObjectCommand("Schedule", newObject),
		a.newRunScheduleCommand(),
		a.newSuspendCommand("pause", "Stop the creation of Backups; running ones continue", true),
		a.newSuspendCommand("resume", "Create Backups again", false),
		a.newDeleteCommand("Schedule", "its Backups stay", newObject))
}

// newCreateScheduleCommand returns the command that creates a Schedule.
func (a *app) newCreateScheduleCommand() *cobra.Command {
	var spec backupSpecFlags
	var flags createFlags
	var s v1alpha1.ScheduleSpec
	var labels map[string]string
	command := &cobra.Command{
		Use: "create NAME --schedule CRON", Short: "Create a Schedule", Args: cobra.ExactArgs(1),
		Example: "  kubectl grapnel schedule create nightly --schedule '0 3 * * *' --time-zone Europe/Berlin --include-namespaces 'shop-*' --ttl 720h",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			template, err := spec.newSpec()
			if err != nil {
				return err
			}
			schedule := &v1alpha1.Schedule{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: args[0]}, Spec: *s.DeepCopy()}
			schedule.Spec.Template.Spec = template
			for key, value := range maps.All(labels) {
				if schedule.Spec.Template.Metadata.Labels == nil {
					schedule.Spec.Template.Metadata.Labels = map[string]v1alpha1.LabelValue{}
				}
				schedule.Spec.Template.Metadata.Labels[key] = v1alpha1.LabelValue(value)
			}
			_, err = a.createObject(cmd.Context(), c, schedule, flags)
			return err
		},
	}
	command.Flags().StringVar(&s.Schedule, "schedule", "", "cron expression, or for example @daily or '@every 6h'")
	command.Flags().StringVar(&s.TimeZone, "time-zone", "", "time zone of the expression (default UTC)")
	command.Flags().BoolVar(&s.Suspend, "paused", false, "create no Backups until it is resumed")
	command.Flags().BoolVar(&s.SkipImmediately, "skip-immediately", false, "wait for the next scheduled time")
	command.Flags().StringToStringVar(&labels, "backup-labels", nil, "labels of the Backups; Plugins select runs by them")
	_ = command.MarkFlagRequired("schedule") // it exists
	spec.bindFlags(command)
	flags.bindFlags(command)
	return command
}

// newSuspendCommand returns the command that suspends or resumes a Schedule.
func (a *app) newSuspendCommand(verb, short string, suspend bool) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			var s v1alpha1.Schedule
			if err := c.getObject(cmd.Context(), "Schedule", args[0], &s, &v1alpha1.ScheduleList{}); err != nil {
				return err
			}
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspend))
			if err := c.Patch(cmd.Context(), &s, patch); err != nil {
				return err
			}
			return a.out.printf("Schedule %s: %sd\n", args[0], verb)
		},
	}
}
