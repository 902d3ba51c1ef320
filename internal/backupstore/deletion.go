// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// Discard removes what a run that ended without a manifest left behind: the
// archive and all files but the logs and the results, which tell why. The
// claim stays until Release. The error is ErrCommitted if the backup is
// complete, a *TakenError or ErrNotClaimed if it is not that UID's.
func (s *Store) Discard(ctx context.Context, name, uid string) error {
	if err := s.discardFiles(ctx, name, uid); err != nil {
		return fmt.Errorf("discarding backup %q: %w", name, err)
	}
	return nil
}

func (s *Store) discardFiles(ctx context.Context, name, uid string) error {
	st, err := s.inspectBackup(ctx, name, uid)
	if err != nil {
		return err
	}
	if err := st.checkAvailable(); err != nil {
		return err
	}
	switch {
	case st.isCommitted():
		return ErrCommitted
	case st.claim == nil || st.claim.BackupUID != uid:
		return ErrNotClaimed
	}
	s.abortUploads(ctx, s.backupDir(name))
	keys := []string{}
	if _, found := st.sizes[name+grapnelSuffix]; found {
		keys = append(keys, s.grapnelKey(name))
	}
	for file, suffix := range fileSuffixes() {
		if file == Logs || file == PostLogs || file == Results {
			continue
		}
		if _, found := st.sizes[name+suffix]; found {
			keys = append(keys, s.backupDir(name)+name+suffix)
		}
	}
	return s.objects.Delete(ctx, keys...)
}

// Delete removes a backup, complete or not, whosever it is: first the
// manifest, so that a backup that is half deleted does not look usable, then
// everything else in its directory, and the claims last, so that nobody writes
// there while files are being removed. It may be repeated and succeeds if
// nothing is there.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := s.deleteBackup(ctx, name); err != nil {
		return fmt.Errorf("deleting backup %q: %w", name, err)
	}
	return nil
}

func (s *Store) deleteBackup(ctx context.Context, name string) error {
	if err := ValidateName(name); err != nil {
		return err
	}
	if err := s.objects.Delete(ctx, s.manifestKey(name)); err != nil {
		return err
	}
	s.abortUploads(ctx, s.backupDir(name))
	return s.deletePrefix(ctx, s.backupDir(name), func(base string) bool { return parseClaimNumber(name, base) > 0 })
}

// deletePrefix removes all objects below dir; those that isLast selects in a
// second step.
func (s *Store) deletePrefix(ctx context.Context, dir string, isLast func(base string) bool) error {
	var first, last []string
	for entry, err := range s.objects.List(ctx, objectstore.ListOptions{Prefix: dir}) {
		switch {
		case err != nil:
			return err
		case isLast != nil && isLast(strings.TrimPrefix(entry.Key, dir)):
			last = append(last, entry.Key)
		default:
			first = append(first, entry.Key)
		}
	}
	for _, keys := range [][]string{first, last} {
		if len(keys) == 0 {
			continue
		}
		if err := s.objects.Delete(ctx, keys...); err != nil {
			return err
		}
	}
	return nil
}

// DeleteOwned is Delete for the backup of one UID: it fails with a *TakenError
// if what is there under the name is another's, for example because the run of
// uid failed and another backup has taken the name since; then nothing is left
// to delete. It does nothing for a UID that never claimed the name. A damaged
// manifest is in the way of nothing; then the claim decides, and if there is
// none that can be read the error is a *CorruptError.
//
// Besides those for the manifests, a complete backup costs four calls to the
// object store, however many files it has; one that was begun costs two more.
func (s *Store) DeleteOwned(ctx context.Context, name, uid string) error {
	there, err := s.isOwnedBy(ctx, name, uid)
	if err != nil {
		return fmt.Errorf("deleting backup %q: %w", name, err)
	}
	if !there {
		return nil // Claims go last, so nothing of that UID is left.
	}
	return s.Delete(ctx, name)
}

// IsOwnedBy reports whether something of the backup of one UID is stored under the name:
// what DeleteOwned would remove, and with its errors.
func (s *Store) IsOwnedBy(ctx context.Context, name, uid string) (bool, error) {
	there, err := s.isOwnedBy(ctx, name, uid)
	if err != nil {
		return false, fmt.Errorf("finding out whose backup %q is: %w", name, err)
	}
	return there, nil
}

func (s *Store) isOwnedBy(ctx context.Context, name, uid string) (bool, error) {
	if err := ValidateName(name); err != nil {
		return false, err
	}
	m, err := s.readManifestPair(ctx, name)
	switch {
	case err == nil && m.mismatch == nil && m.grapnel != nil && m.grapnel.BackupUID == uid:
		return true, nil // Nobody else can have the name of a complete backup.
	case err != nil && !errors.Is(err, objectstore.ErrNotExist) && !isCorruptError(err):
		return false, err
	}
	st, err := s.inspectBackup(ctx, name, uid)
	if isCorruptError(err) {
		st, err = s.inspectClaim(ctx, name, uid)
	}
	if err == nil {
		err = st.checkDeletable()
	}
	if err != nil {
		return false, err
	}
	return st.isCommitted() || st.claim != nil, nil
}

// inspectClaim is inspect for a backup whose manifest cannot be read.
func (s *Store) inspectClaim(ctx context.Context, name, uid string) (*backupState, error) {
	var numbers []int
	st := &backupState{name: name, uid: uid}
	dir := s.backupDir(name)
	for entry, err := range s.objects.List(ctx, objectstore.ListOptions{Prefix: dir}) {
		if err != nil {
			return nil, err
		}
		if number := parseClaimNumber(name, strings.TrimPrefix(entry.Key, dir)); number > 0 {
			numbers = append(numbers, number)
		}
	}
	if len(numbers) == 0 {
		return nil, &CorruptError{Name: name, File: manifestName, Reason: "cannot be understood, and no claim says whose backup it is"}
	}
	return st, s.readHighestClaim(ctx, st, numbers)
}

// checkDeletable is available, but a claim that another released still makes the
// files another's.
func (st *backupState) checkDeletable() error {
	if err := st.checkAvailable(); err != nil {
		return err
	}
	if !st.isCommitted() && st.claim != nil && st.claim.BackupUID != st.uid {
		return &TakenError{Name: st.name, By: *st.claim}
	}
	return nil
}

// isCorruptError reports whether an error says that something stored is damaged.
func isCorruptError(err error) bool {
	_, corrupt := errors.AsType[*CorruptError](err)
	return corrupt
}
