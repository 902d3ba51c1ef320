// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// endedHolderGracePeriod is how long a workload stays quiesced for a run that has ended. The cache
// may show the end of the run before it shows what the run unquiesced at its end.
const endedHolderGracePeriod = time.Minute

// endedHolderTimes records since when runs hold workloads that they will not unquiesce. It is
// replaced as a whole, never modified.
type endedHolderTimes struct {
	// endedSince is when a run was first observed not to be unfinished, by its UID.
	endedSince map[types.UID]time.Time
	// foundElsewhere is when a run was found in another namespace, where another operator of this
	// cluster handles it.
	foundElsewhere map[types.UID]time.Time
}

// observeEndedHolders returns the holders that will not unquiesce what they hold, because they
// ended at least endedHolderGracePeriod ago or no longer exist. next is when there may be another
// one; zero is never.
func (r *Reconciler) observeEndedHolders(ctx context.Context, holders []types.UID, now time.Time) (ended []string, next time.Time, err error) {
	was, is := r.holderTimes, endedHolderTimes{endedSince: map[types.UID]time.Time{}, foundElsewhere: map[types.UID]time.Time{}}
	if len(holders) == 0 {
		r.holderTimes = is
		return nil, next, nil
	}
	runs, err := r.listBackupsAndRestores(ctx)
	if err != nil {
		return nil, next, err
	}
	unfinished := map[types.UID]bool{}
	for _, run := range runs {
		unfinished[run.GetUID()] = !isFinalizedOrCleanupLost(run)
	}
	var gone []types.UID
	for _, uid := range holders {
		goesOn, exists := unfinished[uid]
		if goesOn {
			continue
		}
		if at, known := was.foundElsewhere[uid]; known && !exists && now.Before(at.Add(recheckInterval)) {
			is.foundElsewhere[uid], next = at, earlierNonZeroTime(next, at.Add(recheckInterval))
			continue
		}
		since, known := was.endedSince[uid]
		if !known {
			since = now
		}
		is.endedSince[uid] = since
		switch due := since.Add(endedHolderGracePeriod); {
		case now.Before(due):
			next = earlierNonZeroTime(next, due)
		case exists:
			ended = append(ended, string(uid))
		default:
			gone = append(gone, uid)
		}
	}
	r.holderTimes = is
	there, err := r.findRunsInAllNamespaces(ctx, gone)
	if err != nil {
		return ended, next, err // holders that are known to have ended do not wait for the others
	}
	for _, uid := range gone {
		if there[uid] {
			is.foundElsewhere[uid], next = now, earlierNonZeroTime(next, now.Add(recheckInterval))
			delete(is.endedSince, uid)
			continue
		}
		ended = append(ended, string(uid))
	}
	return ended, next, nil
}

// isFinalizedOrCleanupLost reports whether a run is finalized, or has finished and lost its
// clean-up.
func isFinalizedOrCleanupLost(run lifecycle.Object) bool {
	owed := conditions.Get(run, v1alpha1.ConditionCleanupOwed)
	lost := owed != nil && owed.Status == metav1.ConditionTrue && owed.Reason == v1alpha1.ReasonCleanupLost
	return lifecycle.IsFinalized(run) || (lifecycle.IsFinished(run) && lost)
}

// findRunsInAllNamespaces returns which of the runs exist in any namespace. It reads from the API
// server: a cache may not contain them yet, and covers only the namespace of this operator.
func (r *Reconciler) findRunsInAllNamespaces(ctx context.Context, uids []types.UID) (there map[types.UID]bool, err error) {
	there = map[types.UID]bool{}
	if len(uids) == 0 {
		return there, nil
	}
	for _, kind := range []string{lifecycle.BackupKind.Name, lifecycle.RestoreKind.Name} {
		options := client.ListOptions{Limit: 500}
		for {
			var page metav1.PartialObjectMetadataList
			page.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
			if err := r.APIReader.List(ctx, &page, &options); err != nil {
				return nil, fmt.Errorf("looking for a %s that holds workloads: %w", kind, err)
			}
			for i := range page.Items {
				if slices.Contains(uids, page.Items[i].UID) {
					there[page.Items[i].UID] = true
				}
			}
			if options.Continue = page.Continue; page.Continue == "" {
				break
			}
		}
	}
	return there, nil
}

// listBackupsAndRestores returns all Backups and Restores from the cache; they must not be
// modified. It lists all because a state contains UIDs, not names.
func (r *Reconciler) listBackupsAndRestores(ctx context.Context) ([]lifecycle.Object, error) {
	var backups v1alpha1.BackupList
	var restores v1alpha1.RestoreList
	if err := r.Client.List(ctx, &backups, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Backups: %w", err)
	}
	if err := r.Client.List(ctx, &restores, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Restores: %w", err)
	}
	all := make([]lifecycle.Object, 0, len(backups.Items)+len(restores.Items))
	for i := range backups.Items {
		all = append(all, &backups.Items[i])
	}
	for i := range restores.Items {
		all = append(all, &restores.Items[i])
	}
	return all, nil
}

// hasBecomeFinalizedOrLost reports whether after an event a Backup or Restore will not unquiesce
// anything any more.
func hasBecomeFinalizedOrLost(before, after runtime.Object) bool {
	was, _ := before.(lifecycle.Object) // the watches contain only Backups and Restores
	is, _ := after.(lifecycle.Object)
	return is != nil && isFinalizedOrCleanupLost(is) && (was == nil || !isFinalizedOrCleanupLost(was))
}
