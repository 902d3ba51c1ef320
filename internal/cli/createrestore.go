// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// restoreSpecFlags are the flags for the spec of a Restore.
type restoreSpecFlags struct {
	spec      v1alpha1.RestoreSpec
	mapping   map[string]string
	selectors selectorFlags
	policy    string
	modifier  string
	status    v1alpha1.RestoreStatusSpec
}

func (f *restoreSpecFlags) bindFlags(command *cobra.Command) {
	flags, spec := command.Flags(), &f.spec
	for _, list := range []struct {
		name, usage string
		target      *[]v1alpha1.NamePattern
	}{
		{"include-namespaces", "namespaces to restore, by their names in the backup (default all)", &spec.IncludedNamespaces},
		{"exclude-namespaces", "namespaces to leave out", &spec.ExcludedNamespaces},
		{"include-resources", "resources to restore, for example pods,deployments.apps (default all)", &spec.IncludedResources},
		{"exclude-resources", "resources to leave out", &spec.ExcludedResources},
		{"status-include-resources", "resources whose status is restored, too", &f.status.IncludedResources},
		{"status-exclude-resources", "resources whose status is not restored", &f.status.ExcludedResources},
	} {
		flags.Var(patternList{list.target}, list.name, list.usage)
	}
	flags.StringToStringVar(&f.mapping, "namespace-mappings", nil, "restore a namespace into another one: OLD=NEW,OLD2=NEW2")
	bindOptionalBool(flags, &spec.IncludeClusterResources, "include-cluster-resources", "restore all cluster-scoped objects, or none (default those that are needed)")
	bindOptionalBool(flags, &spec.PreserveNodePorts, "preserve-nodeports", "keep the node ports of Services")
	f.selectors.bindFlags(flags)
	flags.StringVar(&f.policy, "existing-resource-policy", "", "what to do with objects that exist: none, update or recreate (default none)")
	flags.StringVar(&f.modifier, "resource-modifier-configmap", "", "ConfigMap with rules that change objects before they are restored")
	flags.StringVar(&spec.StorageLocation, "storage-location", "", "BackupStorageLocation of the backup (default that of the Backup)")
	flags.BoolVar(&spec.TakeOver, "take-over", false, "this cluster replaces the one that was backed up: Schedules run, and locations are writable")
	bindDuration(flags, &spec.ItemOperationTimeout, "item-operation-timeout", "how long an operation on an object may take")
	bindParameters(flags, &spec.Parameters)
}

// newSpec returns the spec that the flags describe.
func (f *restoreSpecFlags) newSpec() (v1alpha1.RestoreSpec, error) {
	spec := *f.spec.DeepCopy()
	for from, to := range f.mapping {
		if spec.NamespaceMapping == nil {
			spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{}
		}
		spec.NamespaceMapping[from] = v1alpha1.NamespaceName(to)
	}
	spec.ExistingResourcePolicy = v1alpha1.ExistingResourcePolicy(f.policy)
	if f.modifier != "" {
		spec.ResourceModifier = &v1alpha1.ConfigMapReference{Name: f.modifier}
	}
	if len(f.status.IncludedResources)+len(f.status.ExcludedResources) > 0 {
		spec.RestoreStatus = f.status.DeepCopy()
	}
	return spec, f.selectors.apply(&spec.LabelSelector, &spec.OrLabelSelectors)
}

// newCreateRestoreCommand returns the command that creates a Restore.
func (a *app) newCreateRestoreCommand() *cobra.Command {
	var specFlags restoreSpecFlags
	var flags createFlags
	var wait waitFlags
	command := &cobra.Command{
		Use: "create [NAME] --from-backup BACKUP | --from-schedule SCHEDULE", Short: "Create a Restore", Args: cobra.MaximumNArgs(1),
		Long:    "Create a Restore. To see first what it would do, use kubectl grapnel plan restore.",
		Example: "  kubectl grapnel restore create --from-backup shop --namespace-mappings shop-web=rehearsal --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			spec, err := specFlags.newSpec()
			if err != nil {
				return err
			}
			if (spec.BackupName == "") == (spec.ScheduleName == "") {
				return errors.New("set either --from-backup or --from-schedule")
			}
			name := newRunName(cmp.Or(spec.BackupName, spec.ScheduleName))
			if len(args) > 0 {
				name = args[0]
			}
			r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Spec: spec}
			created, err := a.createObject(cmd.Context(), c, r, flags)
			if err != nil || !created {
				return err
			}
			if wait.enabled {
				return a.waitForRun(cmd.Context(), c, restores, r.Name, wait)
			}
			return a.out.printf("Follow it with: kubectl grapnel restore wait %s\n", r.Name)
		},
	}
	command.Flags().StringVar(&specFlags.spec.BackupName, "from-backup", "", "backup to restore")
	command.Flags().StringVar(&specFlags.spec.ScheduleName, "from-schedule", "", "restore the newest Completed backup of this Schedule")
	specFlags.bindFlags(command)
	flags.bindFlags(command)
	wait.bindFlags(command, "wait until the Restore has ended, and show its progress")
	return command
}

// newDeleteRestoreCommand returns the command that deletes a Restore.
func (a *app) newDeleteRestoreCommand() *cobra.Command {
	return a.newDeleteCommand("Restore", "restored objects stay", func() objectAndList { return objectAndList{&v1alpha1.Restore{}, &v1alpha1.RestoreList{}} })
}

// newPlanRestoreCommand returns the command that shows what a Restore would do.
func (a *app) newPlanRestoreCommand() *cobra.Command {
	var specFlags restoreSpecFlags
	var output outputFlag
	command := &cobra.Command{
		Use: "restore BACKUP", Short: "Show what a Restore of a backup would do to each object", Args: cobra.ExactArgs(1),
		Long: "Show what a Restore of a backup would do to each object. Nothing is written to the cluster, and no action runs.\n\n" +
			"The exit code is 0 if the Restore would be Completed, 2 for PartiallyFailed, and 1 otherwise.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.checkFormat(outputTable, outputJSON, outputYAML); err != nil {
				return err
			}
			c, err := a.connectToBackup(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			spec, err := specFlags.newSpec()
			if err != nil {
				return err
			}
			spec.BackupName, spec.DryRun = args[0], true
			r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "plan-"}, Spec: spec}
			if err := c.Create(cmd.Context(), r); err != nil {
				return err
			}
			err = a.showPlan(cmd.Context(), c, r.Name, output)
			return errors.Join(err, c.deleteAfterUse(cmd.Context(), r))
		},
	}
	specFlags.bindFlags(command)
	output.bindFlags(command, outputTable, "output format: table, json or yaml")
	return command
}
