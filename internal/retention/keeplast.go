// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

// ProtectingSchedule returns the Schedule that keeps a Backup as one of its newest successful ones
// (keepLast), or nil. Other Backups with a pending deletion do not count.
func ProtectingSchedule(ctx context.Context, reader client.Reader, b *v1alpha1.Backup, now time.Time) (*v1alpha1.Schedule, error) {
	if b.Labels[v1alpha1.LabelScheduleName] == "" {
		return nil, nil
	}
	var schedules v1alpha1.ScheduleList
	if err := reader.List(ctx, &schedules, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Schedules: %w", err)
	}
	for i := range schedules.Items {
		s := &schedules.Items[i]
		if _, created := NominalTimeBy(b, s.Name); !created || s.Spec.KeepLast == nil {
			continue
		}
		staying, err := listRetainedBackups(ctx, reader, b)
		if err != nil {
			return nil, fmt.Errorf("listing the Backups of Schedule %s: %w", s.Name, err)
		}
		if protectedNames(s, staying, now)[b.Name] {
			return s, nil
		}
		return nil, nil
	}
	return nil, nil
}

// protectedNames returns the names of the Backups of a namespace that a Schedule keeps.
func protectedNames(s *v1alpha1.Schedule, staying []v1alpha1.Backup, now time.Time) map[string]bool {
	if s.Spec.KeepLast == nil {
		return nil
	}
	return schedule.NewestSucceeded(ToRuns(s.Name, staying), int(*s.Spec.KeepLast), now)
}

// ProtectedBackups is ProtectingSchedule for all Backups of a namespace without a pending deletion.
func ProtectedBackups(schedules []v1alpha1.Schedule, staying []v1alpha1.Backup, now time.Time) map[types.UID]bool {
	names := map[string]bool{}
	for i := range schedules {
		maps.Copy(names, protectedNames(&schedules[i], staying, now))
	}
	kept := map[types.UID]bool{}
	for i := range staying {
		kept[staying[i].UID] = names[staying[i].Name]
	}
	return kept
}

// listRetainedBackups returns a Backup and the Backups of the same Schedule without a pending
// deletion.
func listRetainedBackups(ctx context.Context, reader client.Reader, b *v1alpha1.Backup) ([]v1alpha1.Backup, error) {
	var deletions v1alpha1.DeletionRunList
	if err := reader.List(ctx, &deletions, client.UnsafeDisableDeepCopy, client.InNamespace(b.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the DeletionRuns: %w", err)
	}
	var all v1alpha1.BackupList
	err := reader.List(ctx, &all, client.UnsafeDisableDeepCopy, client.InNamespace(b.Namespace),
		client.MatchingLabels{v1alpha1.LabelScheduleName: b.Labels[v1alpha1.LabelScheduleName]})
	var staying []v1alpha1.Backup
	for i := range all.Items {
		if other := &all.Items[i]; other.UID == b.UID || !HasPendingDeletion(other, deletions.Items) {
			staying = append(staying, *other)
		}
	}
	return staying, err
}
