// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/imported"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// bring creates the object of a stored backup when it is its turn.
func (l *look) bring(ctx context.Context, name string, known *entry, b *v1alpha1.Backup) error {
	if err := l.Limiter.Wait(ctx); err != nil {
		return err
	}
	if l.Now().Sub(l.view.taken) > maxAge {
		fresh, err := l.see(ctx, l.bsl)
		if err != nil {
			return err
		}
		l.view = fresh
		stands := func(object *v1alpha1.Backup) bool { return standsFor(object, known.uid) }
		if fresh.busy(name) || slices.ContainsFunc(fresh.backups[name], stands) || !fresh.seen.Wants(name, known.uid) {
			return nil // next time
		}
	}
	created, err := l.create(ctx, name, known, b)
	if created == nil || err != nil {
		return err
	}
	l.report.Imported++
	return l.fill(ctx, created, b, known)
}

// create creates an object, under another name if its own is taken. It returns nil if
// there is nothing to be completed.
func (l *look) create(ctx context.Context, name string, known *entry, b *v1alpha1.Backup) (*v1alpha1.Backup, error) {
	taken := ""
	for range 2 {
		created := b.DeepCopy()
		created.Status = v1alpha1.BackupStatus{}
		err := l.Client.Create(ctx, created)
		switch {
		case err == nil:
			l.tellName(created, taken)
			return created, nil
		case isRefusal(err) && !apierrors.IsAlreadyExists(err):
			known.problem = l.line("as a Backup it is refused: " + err.Error())
			return nil, nil
		case !apierrors.IsAlreadyExists(err):
			return nil, fmt.Errorf("creating Backup %s: %w", b.Name, err)
		}
		var there v1alpha1.Backup
		err = l.Reader.Get(ctx, client.ObjectKeyFromObject(b), &there)
		switch {
		case apierrors.IsNotFound(err) || there.DeletionTimestamp != nil:
			return nil, nil // next time
		case err != nil:
			return nil, fmt.Errorf("reading Backup %s: %w", b.Name, err)
		case locationOf(&there) == l.bsl.Name && there.StoredName() == name && standsFor(&there, known.uid):
			if isBare(&there) {
				return &there, nil
			}
			return nil, nil
		}
		taken = b.Name
		imported.Rename(b)
	}
	known.problem = fmt.Sprintf("Backups %s and %s of other backups have the names that it could have", taken, b.Name)
	return nil, nil
}

// errRefused means that the API server does not take what is to be written on one Backup.
var errRefused = errors.New("refused by the API server")

// isRefusal says whether the API server answered a write, and its answer is about what was
// to be written: a policy, a quota, the size. It may take other objects.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsServiceUnavailable(err)
}

// tellName says that an object is not called like its backup.
func (l *look) tellName(b *v1alpha1.Backup, taken string) {
	if taken == "" {
		return
	}
	l.report.Renamed[b.Name] = b.StoredName()
	l.Recorder.Eventf(b, l.bsl, corev1.EventTypeWarning, v1alpha1.ReasonNameTaken, "Import",
		"Backup %s of BackupStorageLocation %s is called %s here, because another Backup has its name", b.StoredName(), l.bsl.Name, b.Name)
}

// complete gives a bare object its status. Whoever created it wants to see the backup
// again.
func (l *look) complete(ctx context.Context, object, b *v1alpha1.Backup, known *entry) error {
	if object.DeletionTimestamp != nil {
		return nil
	}
	if err := l.Limiter.Wait(ctx); err != nil {
		return err
	}
	l.report.Imported++
	return l.fill(ctx, object, b, known)
}

// fill writes the status of a bare object.
func (l *look) fill(ctx context.Context, object, b *v1alpha1.Backup, known *entry) error {
	_, err := l.write(ctx, object, func(now *v1alpha1.Backup) {
		if run.Decided(now) {
			return
		}
		now.Status = *b.Status.DeepCopy()
		for i := range now.Status.Conditions {
			now.Status.Conditions[i].ObservedGeneration = now.Generation
		}
	})
	if err == nil && !l.view.seen.MadeHere(object.StoredName(), known.uid) {
		l.brought.Add(object.StoredName(), known.uid, false)
	}
	return err
}
