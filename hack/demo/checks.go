// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
)

const (
	freezeAction, copyAction, skippedAction = "example.io/freeze", "example.io/copy", "example.io/notify"
)

// check is one requirement, and the reason why it is not met.
type check struct {
	requirement string
	err         error
}

// printChecks prints the checks, and returns an error if one of them failed.
func printChecks(checks ...check) error {
	failed := 0
	fmt.Println()
	for _, check := range checks {
		if check.err == nil {
			printLine("ok    %s.", check.requirement)
			continue
		}
		failed++
		printLine("FAIL  %s:", check.requirement)
		printBlock(check.err.Error())
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(checks))
	}
	printLine("All %d checks passed.", len(checks))
	return nil
}

func (d *demo) get(ctx context.Context, name string, object client.Object) error {
	return d.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object)
}

func (d *demo) inspectBackup(ctx context.Context) error {
	stored := func(file storage.File) string {
		return d.relative("store", "main", storage.FileKey("", backupName, file))
	}
	if err := d.runCommands(ctx,
		"kubectl get backups.grapnel.dev,hookruns,asyncoperations,plugins,gsl -n "+namespace,
		"kubectl events -n "+namespace,
		"kubectl grapnel backup describe "+backupName,
		"kubectl grapnel timeline "+backupName,
		"kubectl grapnel ls "+backupName+" | sed -n 1,8p",
		"find "+d.relative("store", "main")+" -type f",
		"tar tzf "+stored(storage.Contents)+" | grep databases",
		"kubectl grapnel logs "+backupName+" | sed -n 1,8p",
		"kubectl grapnel logs "+backupName+" --hooks",
	); err != nil {
		return err
	}
	var backup v1alpha1.Backup
	if err := d.get(ctx, backupName, &backup); err != nil {
		return err
	}
	checks, err := d.checkRun(ctx, &backup, filepath.Join(d.dir, "state", "example-copies", string(backup.UID), dataNamespace, claimName, "table"))
	if err != nil {
		return err
	}
	objects, err := filesystem.Open(filepath.Join(d.dir, "store"), "main")
	if err != nil {
		return err
	}
	defer func() { _ = objects.Close() }() // it was only read
	store := storage.New(objects, "")
	return printChecks(append(checks,
		check{"The action that the annotation names was skipped", d.checkSkipped(ctx)},
		check{"Every stored file matches its digest in the manifest", store.Verify(ctx, backupName)},
		check{"The archive has every object of the application, and nothing else", d.checkArchive(ctx, store, &backup)},
		check{"The log has what the plugin logged before the objects were read", checkLog(store.GetFile(ctx, backupName, storage.Logs))(
			"Froze the application", "namespaces=shop-*")},
		check{"The log of the post actions has the outputs of the pre action", checkLog(store.GetFile(ctx, backupName, storage.PostLogs))(
			"Thawed the application", "phase=Completed", "replicas=3", "removedMarkers=1")},
		check{"The progress of the operation was visible", checkTrue(d.progressLines > 0, "no line showed it")},
	)...)
}

func (d *demo) inspectRestore(ctx context.Context) error {
	if err := d.runCommands(ctx,
		"kubectl grapnel restore describe "+restoreName,
		"kubectl grapnel tree "+restoreName,
		"kubectl grapnel results "+restoreName,
		"kubectl grapnel report "+restoreName+" -o "+d.relative(reportFile),
	); err != nil {
		return err
	}
	var restore v1alpha1.Restore
	if err := d.get(ctx, restoreName, &restore); err != nil {
		return err
	}
	checks, err := d.checkRun(ctx, &restore, d.claimFile(mappedNamespace))
	if err != nil {
		return err
	}
	objects, err := filesystem.Open(filepath.Join(d.dir, "store"), "main")
	if err != nil {
		return err
	}
	defer func() { _ = objects.Close() }() // it was only read
	store := storage.New(objects, "")
	outputs := restore.Status.BackupOutputs[freezeAction]
	return printChecks(append(checks,
		check{"Every object is back, in the mapped namespace, and differs only as intended", d.compareObjects(string(restore.UID))},
		check{"The status counts every object of the archive", d.checkCounts(&restore)},
		check{"The status has the outputs of the backup's pre action", checkTrue(outputs["replicas"] == "3", "it has %v", outputs)},
		check{"The log has what the plugin logged before the objects were created", checkLog(store.GetRestoreFile(ctx, restoreName, storage.RestoreLogs))(
			"Froze the application", "namespaces=shop-frontend,shop-backend,"+mappedNamespace)},
		check{"The log of the post actions has the replicas from before the backup", checkLog(store.GetRestoreFile(ctx, restoreName, storage.RestorePostLogs))(
			"Thawed the application", "phase=Completed", "replicas=3", "removedMarkers=1")},
	)...)
}

// checkRun checks what is the same for a backup and a restore. The operation of the run copied the
// data of the claim to a file.
func (d *demo) checkRun(ctx context.Context, run lifecycle.Object, copied string) ([]check, error) {
	var hookRuns v1alpha1.HookRunList
	ofRun := client.MatchingLabels{v1alpha1.LabelParentUID: string(run.GetUID())}
	if err := d.client.List(ctx, &hookRuns, client.InNamespace(namespace), ofRun); err != nil {
		return nil, err
	}
	var operations v1alpha1.AsyncOperationList
	if err := d.client.List(ctx, &operations, client.InNamespace(namespace), ofRun); err != nil {
		return nil, err
	}
	frozen, err := filepath.Glob(filepath.Join(d.dir, "state", "frozen_*"))
	if err != nil {
		return nil, err
	}
	data, readErr := os.ReadFile(copied)
	status := run.Run()
	return []check{
		{"It is Completed, without errors or warnings", checkTrue(
			run.GetPhase() == v1alpha1.RunPhaseCompleted && status.Errors == 0 && status.Warnings == 0, "it is %s: %s", run.GetPhase(), status.Message)},
		{"Its conditions report success, and that no cleanup is owed", checkConditions(run)},
		{"Its pre action ended before the work on objects began, and its post action started after it", checkActions(run)},
		{"Each action has a HookRun, which took one attempt", checkHookRuns(hookRuns.Items)},
		{"The application is not frozen anymore", checkTrue(len(frozen) == 0, "there is %v", frozen)},
		{"It waited for the operation that copies the claim", checkOperations(status, operations.Items)},
		{"The copy has the same bytes as the claim", errors.Join(readErr, checkTrue(bytes.Equal(data, d.claimData), "it has %d other bytes", len(data)))},
	}, nil
}

func checkTrue(met bool, format string, args ...any) error {
	if met {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func checkConditions(run lifecycle.Object) error {
	conditions := run.GetConditions()
	for _, name := range []string{v1alpha1.ConditionSucceeded, v1alpha1.ConditionReady, v1alpha1.ConditionPostActionsSucceeded} {
		if !meta.IsStatusConditionTrue(conditions, name) {
			return fmt.Errorf("the condition %s is not True", name)
		}
	}
	for _, name := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionCleanupOwed} {
		if c := meta.FindStatusCondition(conditions, name); c != nil && c.Status != "False" {
			return fmt.Errorf("the condition %s is %s: %s", name, c.Status, c.Message)
		}
	}
	return nil
}

func checkActions(run lifecycle.Object) error {
	pre, post := run.ActionsStatuses()
	for _, actions := range []*[]v1alpha1.ActionStatus{*pre, *post} {
		if actions == nil || len(*actions) != 1 || (*actions)[0].PluginName != freezeAction || (*actions)[0].Phase != v1alpha1.ActionPhaseCompleted {
			return fmt.Errorf("the status has the actions %v", actions)
		}
	}
	end, preEnd, postStart := run.Run().CompletionTimestamp, (**pre)[0].CompletionTimestamp, (**post)[0].StartTimestamp
	return checkTrue(!preEnd.After(end.Time) && !postStart.Before(end),
		"the pre action ended at %v, the work on objects at %v, and the post action started at %v", preEnd, end, postStart)
}

func checkHookRuns(hookRuns []v1alpha1.HookRun) error {
	for _, hookRun := range hookRuns {
		if s := hookRun.Status; s.Phase != v1alpha1.HookRunPhaseCompleted || s.Attempt != 1 {
			return fmt.Errorf("%s is %s after %d attempts: %s", hookRun.Name, s.Phase, s.Attempt, s.Message)
		}
	}
	return checkTrue(len(hookRuns) == 2, "there are %d HookRuns", len(hookRuns))
}

func checkOperations(run *v1alpha1.RunStatus, operations []v1alpha1.AsyncOperation) error {
	if len(operations) != 1 {
		return fmt.Errorf("there are %d operations", len(operations))
	}
	operation := operations[0]
	return checkTrue(operation.Spec.Item.Name == claimName && operation.Status.Phase == v1alpha1.AsyncOperationPhaseCompleted &&
		operation.Status.CompletionTimestamp.Time.Before(run.CompletionTimestamp.Add(time.Second)) && run.Operations != nil && run.Operations.Completed == 1,
		"%s is %s: %s", operation.Spec.Item.Name, operation.Status.Phase, operation.Status.Message)
}

func (d *demo) checkSkipped(ctx context.Context) error {
	var hookRuns v1alpha1.HookRunList
	if err := d.client.List(ctx, &hookRuns, client.InNamespace(namespace)); err != nil {
		return err
	}
	ran := slices.ContainsFunc(hookRuns.Items, func(hookRun v1alpha1.HookRun) bool { return hookRun.Spec.ActionName == skippedAction })
	return checkTrue(!ran, "it has a HookRun")
}

// checkArchive compares the names of the archived objects with those that the application had.
func (d *demo) checkArchive(ctx context.Context, store *storage.Store, backup *v1alpha1.Backup) (err error) {
	saved, err := d.readObjects("before.json", nil)
	if err != nil {
		return err
	}
	file, err := store.GetFile(ctx, backupName, storage.Contents)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var unexpected []string
	err = archive.Walk(file, archive.Limits{}, func(entry archive.Entry) error {
		if !entry.IsObject() || entry.Object.Version != "" { // each object is there once without a version
			return nil
		}
		object, err := decodeObject(entry.Content)
		if err != nil {
			return fmt.Errorf("decoding %s: %w", entry.Path, err)
		}
		d.archivedObjects++
		if key := objectKey(object); saved[key] == nil {
			unexpected = append(unexpected, key)
		} else {
			delete(saved, key)
		}
		return nil
	})
	p := backup.Status.Progress
	return errors.Join(err,
		checkTrue(len(saved)+len(unexpected) == 0, "it does not have %v, but has %v", slices.Sorted(maps.Keys(saved)), unexpected),
		checkTrue(p != nil && p.ItemsBackedUp == d.archivedObjects, "it has %d objects, the status has %+v", d.archivedObjects, p))
}

// checkLog returns a function that checks that a line of a stored log has all parts.
func checkLog(file io.ReadCloser, openErr error) func(parts ...string) error {
	return func(parts ...string) (err error) {
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		decompressed, err := gzip.NewReader(file)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(decompressed)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return nil
			}
		}
		return fmt.Errorf("no line has %q:\n%s", parts, text)
	}
}

func (d *demo) checkCounts(restore *v1alpha1.Restore) error {
	counts, progress := restore.Status.Counts, restore.Status.Progress
	if counts == nil || progress == nil {
		return errors.New("it has no counts")
	}
	sum := counts.Created + counts.Unchanged + counts.Skipped
	return checkTrue(counts.Created > 0 && sum == d.archivedObjects && progress.ItemsRestored == sum && counts.Updated+counts.Recreated+counts.Failed == 0,
		"it has %+v and %+v, the archive has %d objects", *counts, *progress, d.archivedObjects)
}

func (d *demo) checkDeletion(ctx context.Context) error {
	var deletions v1alpha1.DeletionRunList
	if err := d.client.List(ctx, &deletions, client.InNamespace(namespace)); err != nil || len(deletions.Items) != 1 {
		return errors.Join(err, fmt.Errorf("there are %d DeletionRuns", len(deletions.Items)))
	}
	status := deletions.Items[0].Status
	actions := status.DeleteActionsStatuses
	getErr := d.get(ctx, backupName, &v1alpha1.Backup{})
	return printChecks(
		check{"The DeletionRun is Completed and left nothing behind", checkTrue(
			status.Phase == v1alpha1.RunPhaseCompleted && len(status.LeftBehind) == 0, "it is %s: %s", status.Phase, status.Message)},
		check{"The DeleteAction of the plugin ran once", checkTrue(
			actions != nil && len(*actions) == 1 && (*actions)[0].Phase == v1alpha1.ActionPhaseCompleted, "the status has %v", actions)},
		check{"Its DeleteItemAction got the claim that was in the archive", checkTrue(
			slices.ContainsFunc(status.DeleteItemActions, func(action v1alpha1.DeletionItemAction) bool {
				return action.ActionName == copyAction && action.Items == 1 && action.Failed == 0
			}), "the status has %+v", status.DeleteItemActions)},
		check{"The Backup is gone", checkTrue(apierrors.IsNotFound(getErr), "it still exists: %v", getErr)},
		check{"So are its files in the location", d.checkEmpty("store", "main")},
		check{"So is the copy of the claim that the plugin kept", d.checkEmpty("state", "example-copies")},
	)
}

// checkEmpty checks that there is no file below a directory, which may be missing.
func (d *demo) checkEmpty(directory ...string) error {
	var files []string
	err := filepath.WalkDir(filepath.Join(append([]string{d.dir}, directory...)...), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, checkTrue(len(files) == 0, "there is %s", strings.Join(files, ", ")))
}
