// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

const (
	// deletionSlots is the flag --max-concurrent-deletions, and the target.
	deletionSlots = 4
	// deletionCallTarget is how many calls of the store a deletion may take besides those for
	// its manifest.
	deletionCallTarget = 4
	// deletionTarget is how many seconds the deletion of the backups may take.
	deletionTarget = 60
	// retainedPerExpired is how many Backups do not expire, for each that does: no more than a
	// quarter of the Backups of a location expire in an hour.
	retainedPerExpired = 3
)

// deletions is how many backups an unchanged location has, and how many expire at once.
type deletions struct{ stored, expired int }

// deleted is what was measured of deletions.
type deleted struct {
	deletions
	resync
	idle idleOperator
	// calls are those of a store for one deletion, together of a thousand files.
	calls float64
	// most is how many backups were destroyed at a time, seconds how long all took, and
	// deletionLimit how long the same writes and calls of the store take.
	most                   int
	seconds, deletionLimit float64
}

// measureDeletions measures what it takes to remove backups, and to find that nothing
// changed.
func (d deletions) measureDeletions(ctx context.Context, e *environment) (m deleted, err error) {
	m.deletions = d
	if m.resync, err = d.measureResync(ctx, e); err != nil {
		return m, err
	}
	if m.idle, err = measureIdle(ctx, e, d.stored); err != nil {
		return m, err
	}
	if m.calls, err = callsOfDeletion(ctx, e); err != nil {
		return m, err
	}
	if err := m.expire(ctx, e); err != nil {
		return m, err
	}
	return m, m.measureDeletionLimit(ctx, e)
}

func (m deleted) figures() []figure {
	return append(m.idle.figures(),
		newFigure(fmt.Sprintf("sync of %d unchanged backups", m.stored), "s", m.resync.seconds, m.limit, resyncTarget),
		newFigure(fmt.Sprintf("writes to the API, %d syncs of %d unchanged backups", resyncLooks, m.stored), "", m.writes, 0, resyncWriteTarget),
		newFigure("calls of the store for a deletion, besides the manifest", "", m.calls, 0, deletionCallTarget),
		newFigure(fmt.Sprintf("backups destroyed at a time, %d expired", m.expired), "", float64(m.most), 0, deletionSlots),
		newFigure(fmt.Sprintf("%d expired backups deleted", m.expired), "s", m.seconds, m.deletionLimit, deletionTarget),
	)
}

func (m deleted) rates() string {
	return fmt.Sprintf("expired backups: %d in %.0f s, %.1f/s", m.expired, m.seconds, float64(m.expired)/m.seconds)
}

// expire has many Backups expire at once, and watches how many are destroyed at a time.
func (m *deleted) expire(ctx context.Context, e *environment) error {
	if err := e.replacePlane(ctx); err != nil {
		return err
	}
	e.note("Storing %d backups whose time is over, and %d that are kept", m.expired, retainedPerExpired*m.expired)
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(loadWorkers)
	for i := range retainedPerExpired * m.expired {
		group.Go(func() error { return storeBackup(creating, e, newEndedBackup(fmt.Sprintf("kept-%05d", i))) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := m.storeAllExpired(ctx, e); err != nil {
		return err
	}
	watch, err := e.client.Watch(ctx, &v1alpha1.DeletionRunList{}, client.InNamespace(operator.Namespace))
	if err != nil {
		return fmt.Errorf("watching DeletionRuns: %w", err)
	}
	defer watch.Stop()
	began := time.Now()
	return e.withOperator(ctx, func(*operator.Operator) error {
		open, ended := map[string]bool{}, map[string]bool{}
		for len(ended) < m.expired {
			select {
			case event, ok := <-watch.ResultChan():
				d, is := event.Object.(*v1alpha1.DeletionRun)
				if !ok || !is {
					return errors.New("the API server ended a watch")
				}
				delete(open, d.Name)
				switch {
				case lifecycle.IsFinished(d) && d.Status.Phase != v1alpha1.RunPhaseCompleted:
					return fmt.Errorf("DeletionRun %s ended as %s: %s", d.Name, d.Status.Phase, d.Status.Message)
				case lifecycle.IsFinished(d):
					ended[d.Name] = true
				case lifecycle.IsPlanned(d):
					open[d.Name] = true
					m.most = max(m.most, len(open))
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		m.seconds = time.Since(began).Seconds()
		e.note("%d expired backups were destroyed in %.1f s, at most %d at a time", m.expired, m.seconds, m.most)
		return nil
	}, fmt.Sprintf("--max-concurrent-deletions=%d", deletionSlots))
}

// storeAllExpired creates all Backups whose time is over, and their files.
func (d deletions) storeAllExpired(ctx context.Context, e *environment) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loadWorkers)
	for i := range d.expired {
		group.Go(func() error {
			b := newEndedBackup(fmt.Sprintf("expired-%04d", i))
			now := metav1.Now().Rfc3339Copy() // an earlier start than the creation would not count
			b.Spec.TTL = &metav1.Duration{Duration: time.Second}
			b.Status.StartTimestamp, b.Status.Expiration = &now, &metav1.Time{Time: now.Add(b.Spec.TTL.Duration)}
			return storeBackup(ctx, e, b)
		})
	}
	return group.Wait()
}

// storeBackup creates a Backup and its files.
func storeBackup(ctx context.Context, e *environment, b *v1alpha1.Backup) (err error) {
	if err := e.createEnded(ctx, b); err != nil {
		return err
	}
	objects, err := filesystem.Open(filepath.Dir(e.store()), filepath.Base(e.store()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	return storeOne(ctx, storage.New(objects, ""), b.Name, string(b.UID))
}

// newEndedBackup returns a Backup that ended an hour ago.
func newEndedBackup(name string) *v1alpha1.Backup {
	ended := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: name}}
	b.Status.Phase, b.Status.StorageLocation = v1alpha1.RunPhaseCompleted, locationName
	b.Status.StartTimestamp, b.Status.CompletionTimestamp = &ended, &ended
	conditions.Set(b, v1alpha1.ConditionPlanned, metav1.ConditionTrue, v1alpha1.ReasonPlanRecorded, "planned")
	conditions.Set(b, v1alpha1.ConditionSucceeded, metav1.ConditionTrue, v1alpha1.ReasonCompleted, "done")
	conditions.SetSummary(b, conditions.Current, v1alpha1.ReasonCompleted, "done")
	return b
}

// storeOne stores a complete backup without objects.
func storeOne(ctx context.Context, store *storage.Store, name, uid string) error {
	if err := store.Claim(ctx, name, storage.Claim{BackupUID: uid}); err != nil {
		return err
	}
	attempt, err := store.BeginAttempt(ctx, name, uid)
	if err != nil {
		return err
	}
	contents, err := attempt.PutContents(ctx, bytes.NewReader([]byte("no archive")))
	if err != nil {
		return err
	}
	manifest := fmt.Appendf(nil, `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":%q,"uid":%q},"status":{"phase":"Completed"}}`, name, uid)
	return attempt.Commit(ctx, storage.Manifest{VeleroBackup: manifest, Grapnel: storage.GrapnelManifest{
		BackupUID: uid, Files: map[storage.File]storage.Digest{storage.Contents: contents},
	}})
}

// callsOfDeletion counts the calls that it takes to remove a backup with a thousand files.
func callsOfDeletion(ctx context.Context, e *environment) (calls float64, err error) {
	const name, uid = "many", "uid-of-many"
	objects, err := filesystem.Open(e.dir, "counted")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	if err := storeOne(ctx, storage.New(objects, ""), name, uid); err != nil {
		return 0, err
	}
	for i := range 1000 {
		key := fmt.Sprintf("backups/%s/file-%04d", name, i)
		if _, err := objects.Put(ctx, key, bytes.NewReader(nil), objectstore.PutOptions{}); err != nil {
			return 0, err
		}
	}
	counted := &counting{Store: objects}
	if err := storage.New(counted, "").DeleteOwned(ctx, name, uid); err != nil {
		return 0, err
	}
	return float64(counted.calls.Load()), nil
}

// counting counts the calls of a store that are about more than the manifests and the claim.
type counting struct {
	objectstore.Store
	calls atomic.Int64
}

func (c *counting) note(key string) {
	switch filepath.Base(key) {
	case "velero-backup.json", "many-grapnel.json", "many-claim.json", "many-claim-2.json":
	default:
		c.calls.Add(1)
	}
}

// Get implements objectstore.Store.
func (c *counting) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	c.note(key)
	return c.Store.Get(ctx, key)
}

// List implements objectstore.Store.
func (c *counting) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	c.note(opts.Prefix)
	return c.Store.List(ctx, opts)
}

// Delete implements objectstore.Store.
func (c *counting) Delete(ctx context.Context, keys ...string) error {
	if len(keys) > 0 {
		c.note(keys[len(keys)-1])
	}
	return c.Store.Delete(ctx, keys...)
}

// AbortUploads implements objectstore.UploadAborter.
func (c *counting) AbortUploads(ctx context.Context, prefix string) (int, error) {
	c.note(prefix)
	aborter, ok := c.Store.(objectstore.UploadAborter)
	if !ok {
		return 0, nil
	}
	return aborter.AbortUploads(ctx, prefix)
}
