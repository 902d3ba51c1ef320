// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/destroy"
)

// mostAtOnce is how many Backups of a Schedule are destroyed at the same time, so that a limit
// that is set late makes no thousand DeletionRuns at once.
const mostAtOnce = 50

// limit has the Backups destroyed of which there are more than are kept. One for which there
// was a DeletionRun that could not do it gets another when that is gone.
func (p *pass) limit(ctx context.Context) error {
	var surplus []*v1alpha1.Backup
	for _, name := range p.decision.Delete {
		if b := p.seen.backups[name]; !p.seen.deletions[deletionOf(b).Name] {
			surplus = append(surplus, b)
		}
	}
	if len(surplus) == 0 || p.room() == 0 {
		return nil // the end of one has the Schedule looked at again
	}
	// A deletion can not be stopped, so that the cache is not enough.
	restores, err := destroy.OpenRestores(ctx, p.r.Reader, p.s.Namespace)
	if err != nil {
		return err
	}
	for _, b := range surplus[:min(len(surplus), p.room())] {
		if destroy.IsRead(b, restores) {
			continue // the end of the Restore has the Schedule looked at again
		}
		if err := p.destroy(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// room is how many more Backups may be destroyed now.
func (p *pass) room() int {
	going := 0
	for i := range p.seen.runs {
		if p.seen.runs[i].Deleting {
			going++
		}
	}
	return max(0, mostAtOnce-going)
}

// destroy creates the DeletionRun of a Backup.
func (p *pass) destroy(ctx context.Context, b *v1alpha1.Backup) error {
	deletion := deletionOf(b)
	err := p.r.Client.Create(ctx, deletion)
	switch {
	case apierrors.IsAlreadyExists(err), ending(err):
		return nil
	case err != nil:
		return fmt.Errorf("creating a DeletionRun for Backup %s, which is one more than is kept: %w", b.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Destroying a Backup, as the Schedule keeps only so many", "backup", b.Name, "deletionRun", deletion.Name)
	return nil
}

func deletionOf(b *v1alpha1.Backup) *v1alpha1.DeletionRun {
	return destroy.Run(b, v1alpha1.DeletionCauseScheduleLimit)
}
