// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/retention"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// importedBySync is the value of AnnotationImportedBy.
const importedBySync = "sync"

// minImportAge is how long an imported Backup stays before it makes way for a newer one.
// Frequent writes to the bucket must not make the operator create and delete Backups
// continuously.
const minImportAge = time.Hour

// importBudget chooses which backups of others may have a Backup: a writer to the bucket must not
// be able to fill etcd and the memory of the operator. The newest ones are chosen from the list
// alone, so that the manifests of the others need not be read. The order is the time at which the
// store received the manifest; if the store reports no time or the same for all, as after a copy,
// the time at the end of the names of scheduled backups; then the name.
//
// A chosen backup counts even if its manifest is invalid: otherwise garbage in the bucket would
// cause all manifests to be read. Backups of this cluster do not count. Backups that a user
// imported count and are never removed.
type importBudget struct {
	// limit is how many foreign Backups there may be, and remaining how many more.
	limit, remaining int
	// excluded are the names that get no Backup.
	excluded map[string]bool
	// surplus are Backups that may make way, in the order of their removal.
	surplus []*v1alpha1.Backup
	// numToRemove is how many of them must be removed to make room for the chosen ones.
	numToRemove int
}

// isForeign reports whether a Backup represents a backup that no Backup of this cluster made.
func (v *snapshot) isForeign(b *v1alpha1.Backup) bool {
	return b.Spec.ImportedFrom != nil && !v.tombstones.IsCreatedHere(b.StoredName(), creatorUID(b))
}

// countForeign returns the number of foreign Backups of the location.
func (v *snapshot) countForeign() int {
	n := 0
	for _, objects := range v.backups {
		for _, b := range objects {
			if v.isForeign(b) {
				n++
			}
		}
	}
	return n
}

// isUnknownBackup reports whether a stored name has not been seen in this cluster.
func (v *snapshot) isUnknownBackup(name string) bool {
	_, seen := v.tombstones[name]
	return !seen && len(v.backups[name]) == 0 && !v.isInUse(name)
}

// compareNewestFirst orders stored backups by age, the newest first.
func compareNewestFirst(a, b storage.Entry) int {
	return cmp.Or(b.Stored.Compare(a.Stored), strings.Compare(timestampInName(b.Name), timestampInName(a.Name)), strings.Compare(b.Name, a.Name))
}

var trailingTime = regexp.MustCompile(`-(\d{14})$`)

// timestampInName returns the time at the end of the name of a scheduled backup; "" if there is none.
func timestampInName(name string) string {
	if match := trailingTime.FindStringSubmatch(name); match != nil {
		return match[1]
	}
	return ""
}

// newImportBudget chooses among the stored backups.
func (v *snapshot) newImportBudget(found []storage.Entry, limit int, disabled bool) *importBudget {
	p := &importBudget{limit: limit, excluded: map[string]bool{}}
	foreign, removable := 0, map[string][]*v1alpha1.Backup{}
	for name, objects := range v.backups {
		for _, b := range objects {
			if !v.isForeign(b) {
				continue
			}
			foreign++
			if b.Annotations[v1alpha1.AnnotationImportedBy] == importedBySync {
				removable[name] = append(removable[name], b)
			}
		}
	}
	slots := limit - foreign
	for _, objects := range removable {
		slots += len(objects)
	}
	missing := 0
	for _, f := range slices.SortedFunc(slices.Values(found), compareNewestFirst) {
		objects, unseen := removable[f.Name], v.isUnknownBackup(f.Name)
		switch {
		case len(objects) == 0 && !unseen:
		case unseen && (disabled || slots <= 0):
			p.excluded[f.Name] = true
		case slots > 0:
			slots--
			if unseen {
				missing++
				continue
			}
			// the newest of several represents what is stored now.
			latest := slices.MaxFunc(objects, func(a, b *v1alpha1.Backup) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
			removable[f.Name] = slices.DeleteFunc(objects, func(b *v1alpha1.Backup) bool { return b == latest })
		}
	}
	p.numToRemove = max(0, foreign+missing-limit)
	p.remaining = max(0, limit-foreign)
	p.surplus = v.sortForRemoval(removable, found)
	return p
}

// annotateLegacyImports annotates once the Backups that an older version imported without the
// annotation: without it they could never make way. Imports by users from that time are included.
func (l *locationSync) annotateLegacyImports(ctx context.Context) error {
	var bare []*v1alpha1.Backup
	for name, objects := range l.snapshot.backups {
		for _, b := range objects {
			_, annotated := b.Annotations[v1alpha1.AnnotationImportedBy]
			if l.snapshot.isForeign(b) && !annotated && b.DeletionTimestamp == nil && lifecycle.IsFinished(b) && l.snapshot.tombstones.IsImportedHere(name, creatorUID(b)) {
				bare = append(bare, b)
			}
		}
	}
	if len(bare) == 0 {
		return nil
	}
	if older, err := tombstone.NeedsMigration(ctx, l.Reader, l.bsl.Namespace, l.bsl.Name); !older || err != nil {
		return err
	}
	for _, b := range bare {
		if err := l.annotateImported(ctx, b); err != nil {
			return err
		}
	}
	return tombstone.MarkMigrated(ctx, l.Client, l.Reader, l.bsl.Namespace, l.bsl.Name)
}

// annotateImported records on a Backup that the operator imported it. If the API server rejects that,
// the Backup stays, as if a user had imported it.
func (l *locationSync) annotateImported(ctx context.Context, b *v1alpha1.Backup) error {
	if err := l.Limiter.Wait(ctx); err != nil {
		return err
	}
	name, now := b.StoredName(), b.DeepCopy()
	metav1.SetMetaDataAnnotation(&now.ObjectMeta, v1alpha1.AnnotationImportedBy, importedBySync)
	err := l.Client.Patch(ctx, now, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err), isRejected(err) && !apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("annotating Backup %s, which an older version imported: %w", b.Name, err)
	}
	objects := slices.Clone(l.snapshot.backups[name])
	objects[slices.Index(objects, b)] = now
	l.snapshot.backups[name] = objects
	return nil
}

// sortForRemoval returns Backups that may make way: those without data first, then the oldest.
func (v *snapshot) sortForRemoval(removable map[string][]*v1alpha1.Backup, found []storage.Entry) []*v1alpha1.Backup {
	stored := make(map[string]storage.Entry, len(found))
	for _, f := range found {
		stored[f.Name] = f
	}
	var all []*v1alpha1.Backup
	for _, objects := range removable {
		all = append(all, objects...)
	}
	slices.SortFunc(all, func(a, b *v1alpha1.Backup) int {
		if isDataMissing(a) != isDataMissing(b) {
			if isDataMissing(a) {
				return -1
			}
			return 1
		}
		return cmp.Or(compareNewestFirst(stored[b.StoredName()], stored[a.StoredName()]), strings.Compare(a.Name, b.Name))
	})
	return all
}

// removeSurplus removes the Backups that must make way for newer ones. Their tombstones are removed
// first: no user removed these Backups, and they are imported again when there is room.
func (l *locationSync) removeSurplus(ctx context.Context) error {
	if l.budget.numToRemove == 0 || len(l.budget.surplus) == 0 {
		return nil
	}
	restores, err := retention.ListUnfinishedRestores(ctx, l.Client, l.bsl.Namespace)
	if err != nil {
		return err
	}
	going := map[string]bool{}
	var backups []*v1alpha1.Backup
	for _, b := range l.budget.surplus {
		if len(backups) < l.budget.numToRemove && l.canRemove(b) && !retention.IsUsedByRestore(b, restores) {
			backups, going[b.StoredName()] = append(backups, b), true
		}
	}
	if len(backups) == 0 {
		return nil
	}
	err = tombstone.PruneRecords(ctx, l.Client, l.Reader, l.bsl.Namespace, l.bsl.Name, func(name string) bool { return !going[name] })
	if err != nil {
		return err
	}
	for _, b := range backups {
		if err := l.removeBackup(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// canRemove reports whether an imported Backup may be removed now: it has no finalizer, is not in
// use, and has existed for a while.
func (l *locationSync) canRemove(b *v1alpha1.Backup) bool {
	// A creation time in the future was recorded by a clock that has been set back since.
	return b.DeletionTimestamp == nil && len(b.Finalizers) == 0 && b.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete &&
		l.Now().Sub(b.CreationTimestamp.Time).Abs() >= minImportAge && !l.snapshot.isInUse(b.StoredName())
}

// removeBackup removes a Backup if it is unchanged. The stored data stays.
func (l *locationSync) removeBackup(ctx context.Context, b *v1alpha1.Backup) error {
	if err := l.Limiter.Wait(ctx); err != nil {
		return err
	}
	name := b.StoredName()
	err := l.Client.Delete(ctx, b.DeepCopy(), client.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion})
	switch {
	case apierrors.IsConflict(err):
		return nil // the next sync reads the changed object
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("removing Backup %s, which makes way for newer ones: %w", b.Name, err)
	}
	l.snapshot.backups[name] = slices.DeleteFunc(slices.Clone(l.snapshot.backups[name]), func(o *v1alpha1.Backup) bool { return o.UID == b.UID })
	delete(l.snapshot.tombstones, name)
	l.budget.excluded[name] = l.budget.excluded[name] || len(l.snapshot.backups[name]) == 0
	l.budget.remaining = max(0, l.budget.limit-l.snapshot.countForeign())
	l.report.Removed++
	return nil
}
