// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/imported"
	"github.com/grapnel-dev/grapnel/internal/kube/seen"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
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
	for _, f := range found {
		if err := at.compare(ctx, f); err != nil {
			return *at.report, err
		}
	}
	if at.report.Truncated {
		return *at.report, nil // what was not listed may be there
	}
	err = at.missing(ctx, listed)
	if err == nil {
		err = at.prune(ctx, listed)
	}
	if err == nil {
		err = at.remember(ctx, listed)
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
		if err := l.settle(ctx, found.Name, known, b); err != nil {
			return err
		}
	}
	switch {
	case known.problem != "":
		l.report.unreadable(found.Name, known.problem)
		return l.tellAll(ctx, found.Name, v1alpha1.ReasonBackupsUnreadable,
			fmt.Sprintf("The manifest in BackupStorageLocation %s can not be used: %s", l.bsl.Name, known.problem))
	case known.open:
		return l.tellAll(ctx, found.Name, v1alpha1.ReasonWaitingForBackup,
			fmt.Sprintf("The backup in BackupStorageLocation %s has not ended; this is shown when it has", l.bsl.Name))
	}
	return nil
}

// read reads a manifest, and returns what is known then, and the object that is made of
// it, if it can be one. Both are nil if the backup is gone.
func (l *look) read(ctx context.Context, found backupstore.Found) (*entry, *v1alpha1.Backup, error) {
	before := l.memory.entries[found.Name]
	b, err := l.make(ctx, found.Name)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, nil, nil
	}
	if isGeneral(ctx, err) {
		return nil, nil, err
	}
	known := &entry{open: err == nil && b == nil}
	switch {
	case err != nil:
		known.problem = l.reason(err)
	case b != nil:
		known.uid = b.Spec.ImportedFrom.BackupUID
	}
	l.memory.learn(found, known)
	known.delay(before, l.Pause, l.Now())
	return known, b, nil
}

// make reads a manifest and makes an object of it; it is nil if the backup has not ended.
func (l *look) make(ctx context.Context, name string) (*v1alpha1.Backup, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	velero, grapnel, err := l.store.Manifest(ctx, name)
	if err != nil {
		return nil, err
	}
	return imported.Backup(imported.Source{
		Namespace: l.bsl.Namespace, Location: l.bsl.Name, Prefix: l.bsl.Spec.Prefix, Name: name, Redact: l.Redactor.String,
	}, velero, grapnel)
}

// isGeneral says whether an error is one of the location rather than of one backup.
func isGeneral(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, objectstore.ErrNoStore))
}

// reason says why a backup can not be imported.
func (l *look) reason(err error) string {
	var corrupt *backupstore.CorruptError
	if errors.As(err, &corrupt) {
		return l.line(fmt.Sprintf("file %q %s", corrupt.File, corrupt.Reason))
	}
	return l.line(err.Error())
}

// maxProblem is how much is kept of why a backup can not be imported, in bytes.
const maxProblem = 400

// line returns a text as one short line without secrets.
func (l *look) line(text string) string {
	text = executor.OneLine(l.Redactor.String(text))
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem], "") + "…"
	}
	return text
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
			if err := l.lost(ctx, b); err != nil {
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
	if isGeneral(ctx, err) {
		return false, err
	}
	return errors.Is(err, objectstore.ErrNotExist) || errors.Is(err, backupstore.ErrInvalidName), nil
}

// prune forgets backups that have not been stored for a while.
func (l *look) prune(ctx context.Context, listed map[string]bool) error {
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
