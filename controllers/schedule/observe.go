// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/kube/scheduled"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

// world is what there is of a Schedule.
type world struct {
	runs []schedule.Run
	// backups are those of the runs, by name.
	backups map[string]*v1alpha1.Backup
	// deletions are the names of all DeletionRuns.
	deletions map[string]bool
}

// observe looks at the Backups of a Schedule, and at who uses and destroys them.
func (r *Reconciler) observe(ctx context.Context, s *v1alpha1.Schedule) (*world, error) {
	var backups v1alpha1.BackupList
	labels := client.MatchingLabels{v1alpha1.LabelScheduleName: shortname.Label(s.Name)}
	if err := r.Client.List(ctx, &backups, client.InNamespace(s.Namespace), labels); err != nil {
		return nil, fmt.Errorf("listing the Backups of Schedule %s: %w", s.Name, err)
	}
	w := &world{
		runs:    scheduled.Runs(s.Name, backups.Items),
		backups: make(map[string]*v1alpha1.Backup, len(backups.Items)), deletions: map[string]bool{},
	}
	for i := range backups.Items {
		w.backups[backups.Items[i].Name] = &backups.Items[i]
	}
	restores, err := openRestores(ctx, r.Client, s.Namespace)
	if err != nil {
		return nil, err
	}
	var deletions v1alpha1.DeletionRunList
	if err := r.Client.List(ctx, &deletions, client.InNamespace(s.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	doomed := map[string][]types.UID{}
	for i := range deletions.Items {
		d := &deletions.Items[i]
		w.deletions[d.Name] = true
		if destroys(d) {
			doomed[d.Spec.BackupName] = append(doomed[d.Spec.BackupName], types.UID(d.Spec.BackupUID))
		}
	}
	for i := range w.runs {
		made := &w.runs[i]
		b := w.backups[made.Name]
		made.InUse = made.InUse || isRead(b, restores)
		for _, uid := range doomed[made.Name] {
			made.Deleting = made.Deleting || uid == "" || uid == b.UID
		}
	}
	return w, nil
}

// openRestores returns the Restores that are not decided.
func openRestores(ctx context.Context, reader client.Reader, namespace string) ([]*v1alpha1.Restore, error) {
	var list v1alpha1.RestoreList
	if err := reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the Restores: %w", err)
	}
	var open []*v1alpha1.Restore
	for i := range list.Items {
		if restore := &list.Items[i]; !run.Decided(restore) {
			open = append(open, restore)
		}
	}
	return open, nil
}

// isRead reports whether one of these Restores reads a Backup, or may come to do so: which
// Backup of a Schedule it is to restore is found out when it begins.
func isRead(b *v1alpha1.Backup, open []*v1alpha1.Restore) bool {
	for _, restore := range open {
		switch name := backupOf(restore); {
		case name == b.Name:
			return true
		case name == "" && scheduled.Belongs(b, restore.Spec.ScheduleName):
			return true
		}
	}
	return false
}

// backupOf returns the name of the Backup that a Restore is for; empty if that is not known
// yet.
func backupOf(restore *v1alpha1.Restore) string {
	if restore.Status.BackupName != "" {
		return restore.Status.BackupName
	}
	return restore.Spec.BackupName
}

// destroys reports whether the Backup of a DeletionRun is to go, or has gone. One that ended
// before it did anything leaves it as it was.
func destroys(d *v1alpha1.DeletionRun) bool {
	return !run.Decided(d) || run.Succeeded(d)
}
