// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// backupSpecFlags are the flags for the spec of a Backup, or of the template of a Schedule.
type backupSpecFlags struct {
	spec             v1alpha1.BackupSpec
	selectors        selectorFlags
	orderedResources string
	// names are the names of the flags.
	names []string
}

func (f *backupSpecFlags) bindFlags(command *cobra.Command) {
	flags, spec := command.Flags(), &f.spec
	for _, list := range []struct {
		name, usage string
		target      *[]v1alpha1.NamePattern
	}{
		{"include-namespaces", "namespaces to back up, as names or globs (default all)", &spec.IncludedNamespaces},
		{"exclude-namespaces", "namespaces to leave out", &spec.ExcludedNamespaces},
		{"include-resources", "resources to back up, for example pods,deployments.apps (default all)", &spec.IncludedResources},
		{"exclude-resources", "resources to leave out", &spec.ExcludedResources},
		{"include-cluster-scoped-resources", "cluster-scoped resources to back up", &spec.IncludedClusterScopedResources},
		{"exclude-cluster-scoped-resources", "cluster-scoped resources to leave out", &spec.ExcludedClusterScopedResources},
		{"include-namespace-scoped-resources", "namespaced resources to back up", &spec.IncludedNamespaceScopedResources},
		{"exclude-namespace-scoped-resources", "namespaced resources to leave out", &spec.ExcludedNamespaceScopedResources},
	} {
		flags.Var(patternList{list.target}, list.name, list.usage)
	}
	bindOptionalBool(flags, &spec.IncludeClusterResources, "include-cluster-resources", "back up all cluster-scoped objects, or none (default those that are needed)")
	f.selectors.bindFlags(flags)
	flags.StringVar(&f.orderedResources, "ordered-resources", "", "objects to archive first: pods=ns1/a,ns1/b;persistentvolumes=pv1")
	flags.StringVar(&spec.StorageLocation, "storage-location", "", "BackupStorageLocation (default the default one)")
	bindDuration(flags, &spec.TTL, "ttl", "how long to keep the backup, for example 720h; 0s keeps it until it is deleted (default what the operator's --default-backup-ttl says)")
	bindDuration(flags, &spec.ItemOperationTimeout, "item-operation-timeout", "how long an operation on an object may take")
	bindParameters(flags, &spec.Parameters)
	flags.VisitAll(func(flag *pflag.Flag) { f.names = append(f.names, flag.Name) })
}

// checkUnused returns an error if a flag is set although the spec comes from a Schedule.
func (f *backupSpecFlags) checkUnused(command *cobra.Command) error {
	for _, name := range f.names {
		if command.Flags().Changed(name) {
			return fmt.Errorf("--from-schedule takes the whole spec from the Schedule; remove --%s, or create the Backup without --from-schedule", name)
		}
	}
	return nil
}

// newSpec returns the spec that the flags describe.
func (f *backupSpecFlags) newSpec() (v1alpha1.BackupSpec, error) {
	spec := *f.spec.DeepCopy()
	if err := f.selectors.apply(&spec.LabelSelector, &spec.OrLabelSelectors); err != nil {
		return spec, err
	}
	for part := range strings.SplitSeq(f.orderedResources, ";") {
		if part == "" {
			continue
		}
		resource, list, found := strings.Cut(part, "=")
		if !found {
			return spec, fmt.Errorf("--ordered-resources: %q is not RESOURCE=NAME,NAME", part)
		}
		if spec.OrderedResources == nil {
			spec.OrderedResources = map[string]v1alpha1.OrderedNames{}
		}
		spec.OrderedResources[strings.TrimSpace(resource)] = v1alpha1.OrderedNames(list)
	}
	return spec, nil
}

// newCreateBackupCommand returns the command that creates a Backup.
func (a *app) newCreateBackupCommand() *cobra.Command {
	var spec backupSpecFlags
	var flags createFlags
	var wait waitFlags
	var schedule string
	command := &cobra.Command{
		Use: "create [NAME]", Short: "Create a Backup", Args: cobra.MaximumNArgs(1),
		Example: "  kubectl grapnel backup create shop --include-namespaces 'shop-*' --wait\n" +
			"  kubectl grapnel backup create --from-schedule nightly",
		RunE: func(cmd *cobra.Command, args []string) error {
			if schedule != "" {
				if err := spec.checkUnused(cmd); err != nil {
					return err
				}
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			b, err := c.newBackup(cmd.Context(), &spec, schedule, args)
			if err != nil {
				return err
			}
			created, err := a.createObject(cmd.Context(), c, b, flags)
			if err != nil || !created {
				return err
			}
			if wait.enabled {
				return a.waitForRun(cmd.Context(), c, backups, b.Name, wait)
			}
			return a.out.printf("Follow it with: kubectl grapnel backup wait %s\n", b.Name)
		},
	}
	spec.bindFlags(command)
	flags.bindFlags(command)
	wait.bindFlags(command, "wait until the Backup has ended, and show its progress")
	command.Flags().StringVar(&schedule, "from-schedule", "", "use the template of this Schedule, without flags for the spec. The Backup does not count for\nthe Schedule; schedule run creates one that does")
	return command
}

// newBackup returns the Backup that the arguments describe.
func (c *connection) newBackup(ctx context.Context, flags *backupSpecFlags, schedule string, args []string) (*v1alpha1.Backup, error) {
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace}}
	if len(args) > 0 {
		b.Name = args[0]
	}
	if schedule == "" {
		if b.Name == "" {
			return nil, errors.New("name the Backup, or use --from-schedule")
		}
		var err error
		b.Spec, err = flags.newSpec()
		return b, err
	}
	var s v1alpha1.Schedule
	if err := c.getObject(ctx, "Schedule", schedule, &s, &v1alpha1.ScheduleList{}); err != nil {
		return nil, err
	}
	template := &s.Spec.Template
	b.Spec = *template.Spec.DeepCopy()
	b.Labels, b.Annotations = map[string]string{}, map[string]string{}
	for key, value := range template.Metadata.Labels {
		b.Labels[key] = string(value)
	}
	for key, value := range template.Metadata.Annotations {
		b.Annotations[key] = string(value)
	}
	if b.Name == "" {
		b.Name = newRunName(schedule)
	}
	return b, nil
}

// newDeleteBackupCommand returns the command that destroys a backup.
func (a *app) newDeleteBackupCommand() *cobra.Command {
	var confirmed, foreign bool
	var wait waitFlags
	command := &cobra.Command{
		Use: "delete NAME", Short: "Destroy a backup: its data, what plugins keep for it, and its objects", Args: cobra.ExactArgs(1),
		Long: "Destroy a backup: its data, what plugins keep for it, its Backup and the Restores of it.\n\n" +
			"To remove only the Backup and keep the data, check that its deletionPolicy is Retain (the default), and run\n" +
			"kubectl delete backups.grapnel.dev NAME -n NAMESPACE.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			found, err := c.getRun(cmd.Context(), backups, args[0])
			if err != nil {
				return err
			}
			if err := confirmAction(cmd.InOrStdin(), a.errOut, confirmed, "Destroy backup "+args[0]+" and its data?"); err != nil {
				return err
			}
			d := &v1alpha1.DeletionRun{
				ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "delete-"},
				Spec:       v1alpha1.DeletionRunSpec{BackupName: args[0], BackupUID: string(found.GetUID()), DestroyForeign: foreign},
			}
			if err := c.Create(cmd.Context(), d); err != nil {
				return err
			}
			if err := a.out.printf("DeletionRun %s created\n", d.Name); err != nil || !wait.enabled {
				return err
			}
			return a.waitForRun(cmd.Context(), c, deletionRuns, d.Name, wait)
		},
	}
	command.Flags().BoolVar(&confirmed, "confirm", false, "do not ask for a confirmation")
	command.Flags().BoolVar(&foreign, "destroy-foreign", false, "destroy a backup that another cluster or a Velero server made")
	wait.bindFlags(command, "wait until the backup is destroyed")
	return command
}
