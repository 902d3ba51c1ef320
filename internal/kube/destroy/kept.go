// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package destroy

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/scheduled"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

// KeptBy returns the Schedule that keeps a Backup as one of the newest that succeeded
// (keepLast), or nil. Other Backups that are to go by one of the DeletionRuns do not count.
func KeptBy(
	ctx context.Context, reader client.Reader, b *v1alpha1.Backup, deletions []v1alpha1.DeletionRun, now time.Time,
) (*v1alpha1.Schedule, error) {
	if b.Labels[v1alpha1.LabelScheduleName] == "" {
		return nil, nil
	}
	var schedules v1alpha1.ScheduleList
	if err := reader.List(ctx, &schedules, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Schedules: %w", err)
	}
	for i := range schedules.Items {
		s := &schedules.Items[i]
		if _, created := scheduled.Created(b, s.Name); !created || s.Spec.KeepLast == nil {
			continue
		}
		staying, err := staying(ctx, reader, b, deletions)
		if err != nil {
			return nil, fmt.Errorf("listing the Backups of Schedule %s: %w", s.Name, err)
		}
		if schedule.NewestSucceeded(scheduled.Runs(s.Name, staying), int(*s.Spec.KeepLast), now)[b.Name] {
			return s, nil
		}
		return nil, nil
	}
	return nil, nil
}

// staying returns the Backups with the label of one's Schedule that are not to go, and itself.
func staying(ctx context.Context, reader client.Reader, b *v1alpha1.Backup, deletions []v1alpha1.DeletionRun) ([]v1alpha1.Backup, error) {
	var all v1alpha1.BackupList
	err := reader.List(ctx, &all, client.UnsafeDisableDeepCopy, client.InNamespace(b.Namespace),
		client.MatchingLabels{v1alpha1.LabelScheduleName: b.Labels[v1alpha1.LabelScheduleName]})
	var staying []v1alpha1.Backup
	for i := range all.Items {
		if other := &all.Items[i]; other.UID == b.UID || !Doomed(other, deletions) {
			staying = append(staying, *other)
		}
	}
	return staying, err
}
