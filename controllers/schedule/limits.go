// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/retention"
)

// maxConcurrentDeletions is how many Backups of a Schedule are destroyed at the same time. A limit that is
// set late must not create a thousand DeletionRuns at once.
const maxConcurrentDeletions = 50

// enforceKeepLimits destroys the Backups in excess of the limits. A Backup whose DeletionRun failed gets
// another one when the first is deleted.
func (p *reconcileScope) enforceKeepLimits(ctx context.Context) error {
	var surplus []*v1alpha1.Backup
	for _, name := range p.decision.Delete {
		if b := p.observed.backups[name]; !p.observed.deletionRunNames[newLimitDeletionRun(b).Name] {
			surplus = append(surplus, b)
		}
	}
	if len(surplus) == 0 || p.numDeletionsAllowed() == 0 {
		return nil // the end of one enqueues the Schedule
	}
	// A deletion cannot be stopped, so the cache is not enough.
	restores, err := retention.ListUnfinishedRestores(ctx, p.r.Reader, p.s.Namespace)
	if err != nil {
		return err
	}
	for _, b := range surplus[:min(len(surplus), p.numDeletionsAllowed())] {
		if retention.IsUsedByRestore(b, restores) {
			continue // the end of the Restore enqueues the Schedule
		}
		if err := p.createDeletionRun(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// numDeletionsAllowed returns how many more Backups may be destroyed now.
func (p *reconcileScope) numDeletionsAllowed() int {
	going := 0
	for i := range p.observed.runs {
		if p.observed.runs[i].Deleting {
			going++
		}
	}
	return max(0, maxConcurrentDeletions-going)
}

// createDeletionRun creates the DeletionRun of a Backup.
func (p *reconcileScope) createDeletionRun(ctx context.Context, b *v1alpha1.Backup) error {
	deletion := newLimitDeletionRun(b)
	err := p.r.Client.Create(ctx, deletion)
	switch {
	case apierrors.IsAlreadyExists(err), isNamespaceTerminating(err):
		return nil
	case err != nil:
		return fmt.Errorf("creating a DeletionRun for Backup %s, which exceeds the limits of its Schedule: %w", b.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Destroying a Backup that exceeds the limits of its Schedule", "backup", b.Name, "deletionRun", deletion.Name)
	return nil
}

func newLimitDeletionRun(b *v1alpha1.Backup) *v1alpha1.DeletionRun {
	return retention.NewDeletionRun(b, v1alpha1.DeletionCauseScheduleLimit)
}
