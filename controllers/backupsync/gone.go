// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/seen"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// missing marks the Backups whose data is not in the location any more.
func (l *look) missing(ctx context.Context, listed map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(l.view.backups)) {
		if listed[name] || l.view.busy(name) {
			continue
		}
		affected := slices.DeleteFunc(slices.Clone(l.view.backups[name]), func(b *v1alpha1.Backup) bool { return !l.lacksData(b) })
		if len(affected) == 0 {
			continue
		}
		if gone, err := l.isGone(ctx, name); err != nil || !gone {
			if err != nil {
				return err
			}
			continue
		}
		for _, b := range affected {
			err := l.lost(ctx, b)
			if errors.Is(err, errRefused) {
				l.report.unreadable(name, l.line(err.Error()))
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// lacksData says whether a Backup that was not listed should have been, and does not say
// that yet.
func (l *look) lacksData(b *v1alpha1.Backup) bool {
	switch {
	case b.DeletionTimestamp != nil:
		return false
	case isBare(b):
		return !wasTold(b)
	case !hasData(b) || isMarked(b):
		return false
	case b.Spec.ImportedFrom != nil:
		return b.CreationTimestamp.Time.Before(l.began)
	}
	return b.Status.CompletionTimestamp.Time.Before(l.began)
}

// isGone asks the store itself whether a backup is not there.
func (l *look) isGone(ctx context.Context, name string) (bool, error) {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, _, err := l.store.Manifest(reading, name)
	if err := l.general(ctx, err); err != nil {
		return false, err
	}
	return errors.Is(err, objectstore.ErrNotExist) || errors.Is(err, backupstore.ErrInvalidName), nil
}

// prune forgets backups that have not been stored for a while. Where nothing at all is
// stored, nothing is forgotten: that is how a volume looks that is not mounted.
func (l *look) prune(ctx context.Context, listed map[string]bool) error {
	if len(listed) == 0 {
		l.memory.lost = nil
		return nil
	}
	lost, gone := map[string]time.Time{}, map[string]bool{}
	for name := range l.view.seen {
		if listed[name] {
			continue
		}
		since, known := l.memory.lost[name]
		if !known {
			since = l.Now()
		}
		lost[name] = since
		if l.Now().Sub(since) < lostGrace {
			continue
		}
		is, err := l.isGone(ctx, name)
		if err != nil {
			return err
		}
		if is {
			gone[name] = true
		}
	}
	l.memory.lost = lost
	if len(gone) == 0 {
		return nil
	}
	return seen.Prune(ctx, l.Client, l.Reader, l.bsl.Namespace, l.bsl.Name, func(name string) bool { return !gone[name] })
}
