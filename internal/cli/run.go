// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// run is a Backup or a Restore.
type run interface {
	client.Object
	Run() *v1alpha1.RunStatus
	GetPhase() v1alpha1.RunPhase
	GetConditions() []metav1.Condition
	ActionsStatuses() (pre, post **[]v1alpha1.ActionStatus)
}

// runKind is what commands need to know about Backups or Restores.
type runKind struct {
	// kind is "Backup", resource is "backups".
	kind, resource string
	newRun         func() run
	newList        func() client.ObjectList
	// The files of such a run.
	log, postLog, results v1alpha1.DownloadTargetKind
	// label is on the HookRuns and AsyncOperations of such a run.
	label string
}

var (
	backups = runKind{
		kind: "Backup", resource: "backups",
		newRun: func() run { return &v1alpha1.Backup{} }, newList: func() client.ObjectList { return &v1alpha1.BackupList{} },
		log: v1alpha1.DownloadBackupLog, postLog: v1alpha1.DownloadBackupPostLog, results: v1alpha1.DownloadBackupResults,
		label: v1alpha1.LabelBackupName,
	}
	restores = runKind{
		kind: "Restore", resource: "restores",
		newRun: func() run { return &v1alpha1.Restore{} }, newList: func() client.ObjectList { return &v1alpha1.RestoreList{} },
		log: v1alpha1.DownloadRestoreLog, postLog: v1alpha1.DownloadRestorePostLog, results: v1alpha1.DownloadRestoreResults,
		label: v1alpha1.LabelRestoreName,
	}
)

// commandName returns the name of the command of a kind.
func (k runKind) commandName() string { return strings.ToLower(k.kind) }

// newRunCommand returns the command for Backups or Restores, with the commands that create and delete one.
func (a *app) newRunCommand(k runKind, create, remove *cobra.Command) *cobra.Command {
	return newGroupCommand(k.commandName(), "Create, watch and delete "+k.kind+"s",
		create, a.newGetCommand(k.kind, k.resource), a.newDescribeCommand(k), a.newWaitCommand(k), a.newCancelCommand(k), remove)
}

// adviceWhileRunning says what to do with a run that has not ended. A deletion that has begun cannot be stopped.
func (k runKind) adviceWhileRunning(name string) string {
	if k.kind == deletionRuns.kind {
		return "kubectl describe deletionruns.grapnel.dev " + name + " shows its progress"
	}
	return fmt.Sprintf("kubectl grapnel %s cancel %s stops it", k.commandName(), name)
}

// adviceForProblems says where all problems of a run are.
func (k runKind) adviceForProblems(r run) string {
	if k.kind == deletionRuns.kind {
		return fmt.Sprintf("kubectl describe deletionruns.grapnel.dev %s -n %s", r.GetName(), r.GetNamespace())
	}
	return fmt.Sprintf("kubectl grapnel results %s/%s", k.commandName(), r.GetName())
}

// getRun reads a run by its name.
func (c *connection) getRun(ctx context.Context, k runKind, name string) (run, error) {
	found := k.newRun()
	return found, c.getObject(ctx, k.kind, name, found, k.newList())
}

// findRun reads the run that an argument names: "backup/NAME", "restore/NAME", or the NAME of a Backup, or else of a
// Restore.
func (c *connection) findRun(ctx context.Context, argument string) (runKind, run, error) {
	if kind, name, found := strings.Cut(argument, "/"); found {
		for _, k := range []runKind{backups, restores} {
			if k.commandName() == kind || k.resource == kind || k.resource+"."+v1alpha1.GroupVersion.Group == kind {
				r, err := c.getRun(ctx, k, name)
				return k, r, err
			}
		}
		return runKind{}, nil, fmt.Errorf("%q is neither backup/NAME nor restore/NAME", argument)
	}
	b, err := c.getRun(ctx, backups, argument)
	if err == nil {
		return backups, b, nil
	}
	if r, restoreErr := c.getRun(ctx, restores, argument); restoreErr == nil {
		return restores, r, nil
	}
	names, listErr := c.listNames(ctx, backups.newList())
	more, restoresErr := c.listNames(ctx, restores.newList())
	if listErr != nil || restoresErr != nil {
		return runKind{}, nil, err
	}
	return runKind{}, nil, missingError("Backup or Restore", c.namespace, argument, append(names, more...))
}

// connectToRun connects to the cluster and reads the run that an argument names; see findRun.
func (a *app) connectToRun(ctx context.Context, argument string) (*connection, runKind, run, error) {
	c, err := a.connect()
	if err != nil {
		return nil, runKind{}, nil, err
	}
	k, r, err := c.findRun(ctx, argument)
	return c, k, r, err
}

// connectToBackup connects to the cluster and checks that a Backup exists, whose files a command reads.
func (a *app) connectToBackup(ctx context.Context, name string) (*connection, error) {
	c, err := a.connect()
	if err != nil {
		return nil, err
	}
	_, err = c.getRun(ctx, backups, name)
	return c, err
}

// isFinished reports whether nothing is left to do for a run, whatever its outcome.
func isFinished(r run) bool {
	return r.Run().ObservedGeneration == r.GetGeneration() && r.GetPhase() != "" && conditionStatus(r, v1alpha1.ConditionReconciling) == metav1.ConditionFalse
}

// conditionStatus returns the status of a condition; empty if there is none.
func conditionStatus(r run, name string) metav1.ConditionStatus {
	for _, c := range r.GetConditions() {
		if c.Type == name {
			return c.Status
		}
	}
	return ""
}

// newCancelCommand returns the command that cancels a run.
func (a *app) newCancelCommand(k runKind) *cobra.Command {
	var wait waitFlags
	command := &cobra.Command{
		Use: "cancel NAME", Short: "Cancel a " + k.kind + "; its owed clean-up runs", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			r, err := c.getRun(cmd.Context(), k, args[0])
			if err != nil {
				return err
			}
			if r.Run().CompletionTimestamp != nil {
				return fmt.Errorf("%s %s ended already: %s", k.kind, args[0], r.GetPhase())
			}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"`+string(v1alpha1.DesiredStateCancel)+`"}}`))
			if err := c.Patch(cmd.Context(), r, patch); err != nil {
				return err
			}
			if err := a.out.printf("%s %s is being canceled\n", k.kind, args[0]); err != nil || !wait.enabled {
				return err
			}
			return ignoreCanceled(a.waitForRun(cmd.Context(), c, k, args[0], wait))
		},
	}
	wait.bindFlags(command, "wait until its clean-up has ended")
	return command
}
