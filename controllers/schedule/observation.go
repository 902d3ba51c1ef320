// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/retention"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

// observedState is the observed state of a Schedule.
type observedState struct {
	runs []schedule.Run
	// backups are the Backups of the runs, by name. They belong to the cache.
	backups map[string]*v1alpha1.Backup
	// deletionRunNames are the names of all DeletionRuns.
	deletionRunNames map[string]bool
}

// observeSchedule reads the Backups of a Schedule and the DeletionRuns. The Restores that use a Backup
// are read before it is destroyed, if it comes to that.
func (r *Reconciler) observeSchedule(ctx context.Context, s *v1alpha1.Schedule) (*observedState, error) {
	var backups v1alpha1.BackupList
	labels := client.MatchingLabels{v1alpha1.LabelScheduleName: names.LabelValue(s.Name)}
	if err := r.Client.List(ctx, &backups, client.InNamespace(s.Namespace), labels, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Backups of Schedule %s: %w", s.Name, err)
	}
	w := &observedState{
		runs:    retention.ToRuns(s.Name, backups.Items),
		backups: make(map[string]*v1alpha1.Backup, len(backups.Items)), deletionRunNames: map[string]bool{},
	}
	for i := range backups.Items {
		w.backups[backups.Items[i].Name] = &backups.Items[i]
	}
	var deletions v1alpha1.DeletionRunList
	if err := r.Client.List(ctx, &deletions, client.InNamespace(s.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	of := map[string][]v1alpha1.DeletionRun{}
	for i := range deletions.Items {
		d := &deletions.Items[i]
		w.deletionRunNames[d.Name] = true
		of[d.Spec.BackupName] = append(of[d.Spec.BackupName], *d)
	}
	for i := range w.runs {
		made := &w.runs[i]
		made.Deleting = made.Deleting || retention.HasPendingDeletion(w.backups[made.Name], of[made.Name])
	}
	return w, nil
}
