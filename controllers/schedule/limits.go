// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/shortname"
)

// limit has the Backups destroyed of which there are more than are kept.
func (p *pass) limit(ctx context.Context) error {
	var surplus []*v1alpha1.Backup
	for _, name := range p.decision.Delete {
		if b := p.seen.backups[name]; !p.seen.deletions[deletionName(b)] {
			surplus = append(surplus, b)
		}
	}
	if len(surplus) == 0 {
		return nil
	}
	// A deletion can not be stopped, so that the cache is not enough.
	restores, err := openRestores(ctx, p.r.Reader, p.s.Namespace)
	if err != nil {
		return err
	}
	for _, b := range surplus {
		if isRead(b, restores) {
			continue // the end of the Restore has the Schedule looked at again
		}
		if err := p.destroy(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// destroy creates the DeletionRun of a Backup.
func (p *pass) destroy(ctx context.Context, b *v1alpha1.Backup) error {
	deletion := &v1alpha1.DeletionRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: deletionName(b)},
		Spec: v1alpha1.DeletionRunSpec{
			BackupName: b.Name, BackupUID: string(b.UID), Cause: v1alpha1.DeletionCauseScheduleLimit,
		},
	}
	err := p.r.Client.Create(ctx, deletion)
	switch {
	case apierrors.IsAlreadyExists(err), ending(err):
		return nil
	case err != nil:
		return fmt.Errorf("creating a DeletionRun for Backup %s, of which there are more than are kept: %w", b.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Destroying a Backup, as the Schedule keeps only so many", "backup", b.Name, "deletionRun", deletion.Name)
	return nil
}

// deletionName returns the name of the DeletionRun that a Schedule creates for a Backup. It
// is always the same, so that two passes create one.
func deletionName(b *v1alpha1.Backup) string {
	const limit = 63
	return shortname.Of(b.Name+"-limit", limit, string(b.UID))
}
