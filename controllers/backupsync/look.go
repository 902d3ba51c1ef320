// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/seen"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Store is what is read of a location; *backupstore.Store is one.
type Store interface {
	// Find lists the backups.
	Find(ctx context.Context) iter.Seq2[backupstore.Found, error]
	// Manifest reads the manifests of one.
	Manifest(ctx context.Context, name string) ([]byte, *backupstore.GrapnelManifest, error)
}

// Limiter gives turns to write. It is used by several looks at once.
type Limiter interface {
	// Wait waits for a turn, or for the end of ctx.
	Wait(ctx context.Context) error
}

// Looker compares locations with the Backups of the cluster. Every field is required. It
// is safe for concurrent use.
type Looker struct {
	// Client reads from a cache, Reader past it.
	Client   client.Client
	Reader   client.Reader
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	// Limiter is asked before each object that is created or changed.
	Limiter Limiter
	// Pause is the shortest time after which a backup is read again that could not be
	// imported; it grows up to an hour.
	Pause time.Duration
	// Now is the clock.
	Now func() time.Time
}

const (
	// maxListed bounds how many backups of a location are looked at.
	maxListed = 100_000
	// listTimeout and readTimeout bound what is asked of a store.
	listTimeout = 10 * time.Minute
	readTimeout = time.Minute
	// maxHung is how many manifests in a row may take longer than that.
	maxHung = 3
	// flushTimeout bounds how long is written what an interrupted look did.
	flushTimeout = 5 * time.Second
	// maxAge is how old the view of the cluster may be when something is imported.
	maxAge = 5 * time.Second
	// lostGrace is how long a removed backup is remembered that is not stored any more: a
	// volume that is not mounted looks empty.
	lostGrace = time.Hour
)

// look is one look at a location.
type look struct {
	*Looker
	store  Store
	bsl    *v1alpha1.BackupStorageLocation
	memory *Memory
	view   *view
	report *Report
	began  time.Time
	// hung counts the manifests in a row whose reading took too long.
	hung int
	// brought are the backups that this look made Backups of.
	brought seen.Backups
}

// Look brings the backups of a location into the cluster, and marks Backups whose data is
// gone. Store is that of the location. It may take as long as the limiter makes it; it can
// be ended by ctx at any time, and be repeated. Backups that can not be imported are no
// error, but in the Report.
func (l *Looker) Look(ctx context.Context, store Store, bsl *v1alpha1.BackupStorageLocation, memory *Memory) (Report, error) {
	at := &look{Looker: l, store: store, bsl: bsl, memory: memory, report: &Report{Renamed: map[string]string{}}, began: l.Now(), brought: seen.Backups{}}
	found, err := at.list(ctx)
	if err == nil {
		at.view, err = l.see(ctx, bsl)
	}
	if err != nil {
		return *at.report, err
	}
	listed := make(map[string]bool, len(found))
	for _, f := range found {
		listed[f.Name] = true
	}
	memory.forget(listed)
	err = at.all(ctx, found, listed)
	// Also what a look did that could not go on: somebody may remove it before the next one.
	if !errors.Is(context.Cause(ctx), errChanged) {
		flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		err = errors.Join(err, at.remember(flushing, listed))
	}
	for name, objects := range at.view.backups {
		for _, b := range objects {
			if b.Spec.ImportedFrom != nil && b.Name != name {
				at.report.Renamed[b.Name] = name
			}
		}
	}
	return *at.report, err
}

// all compares everything that was found.
func (l *look) all(ctx context.Context, found []backupstore.Found, listed map[string]bool) error {
	for _, f := range found {
		if err := l.compare(ctx, f); err != nil {
			return err
		}
	}
	if l.report.Truncated {
		return nil // what was not listed may be there
	}
	if err := l.missing(ctx, listed); err != nil {
		return err
	}
	return l.prune(ctx, listed)
}

// list returns what the location has, up to maxListed.
func (l *look) list(ctx context.Context) ([]backupstore.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var all []backupstore.Found
	for found, err := range l.store.Find(ctx) {
		if err != nil {
			return nil, err
		}
		if len(all) == maxListed {
			l.report.Truncated = true
			break
		}
		all = append(all, found)
	}
	l.report.Found = len(all)
	return all, nil
}

// compare sees to it that one stored backup has its object.
func (l *look) compare(ctx context.Context, found backupstore.Found) error {
	if l.view.busy(found.Name) {
		return nil
	}
	known, b := l.memory.recall(found, l.view.backups[found.Name]), (*v1alpha1.Backup)(nil)
	if known == nil || known.isDue(found.Name, l.view, l.Now()) {
		var err error
		if known, b, err = l.read(ctx, found); known == nil || err != nil {
			return err
		}
	}
	if known.problem == "" && !known.open {
		err := l.settle(ctx, found.Name, known, b)
		switch {
		case errors.Is(err, errRefused):
			known.problem = l.line(err.Error())
		case err != nil:
			return err
		}
	}
	return l.explain(ctx, found.Name, known)
}

// explain says of a stored backup why it has no Backup with a status, if it has none.
func (l *look) explain(ctx context.Context, name string, known *entry) error {
	var reason, message string
	switch {
	case known.problem != "":
		l.report.unreadable(name, known.problem)
		reason = v1alpha1.ReasonBackupsUnreadable
		message = fmt.Sprintf("The manifest in BackupStorageLocation %s can not be used: %s", l.bsl.Name, known.problem)
	case known.open:
		reason = v1alpha1.ReasonWaitingForBackup
		message = fmt.Sprintf("The backup in BackupStorageLocation %s has not ended; this is shown when it has", l.bsl.Name)
	}
	if reason == "" || known.mute {
		return nil
	}
	err := l.tellAll(ctx, name, reason, message)
	if !errors.Is(err, errRefused) {
		return err
	}
	known.mute = true
	if known.problem == "" {
		known.problem = l.line(err.Error())
		l.report.unreadable(name, known.problem)
	}
	return nil
}

// settle compares the objects of a name with what is stored under it, and imports that if
// none stands for it. B is nil if nothing has to be written of it.
func (l *look) settle(ctx context.Context, name string, known *entry, b *v1alpha1.Backup) error {
	matched := false
	for _, object := range l.view.backups[name] {
		var err error
		switch stands := standsFor(object, known.uid); {
		case stands && isBare(object):
			matched = true
			if b != nil {
				err = l.complete(ctx, object, b, known)
			}
		case stands:
			matched = true
			err = l.unmark(ctx, object)
		case isBare(object):
			err = l.tell(ctx, object, v1alpha1.ReasonDataMissing,
				fmt.Sprintf("BackupStorageLocation %s has another backup under this name: that of the Backup with the UID %s", l.bsl.Name, known.uid))
		case hasData(object):
			err = l.mark(ctx, object, fmt.Sprintf("BackupStorageLocation %s has another backup under this name, and this one's data is gone", l.bsl.Name))
		}
		if err != nil || known.problem != "" {
			return err
		}
	}
	if matched || b == nil || !l.view.seen.Wants(name, known.uid) {
		return nil
	}
	return l.bring(ctx, name, known, b)
}
