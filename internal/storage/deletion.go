// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Discard removes the leftovers of a run that ended without a manifest: the archive and all
// files except the logs and the results, which explain the failure. The claim stays until
// Release. The error is ErrCommitted if the backup is complete, or a *TakenError or
// ErrNotClaimed if it does not belong to uid.
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

// Delete removes a backup of any owner, complete or not. It removes the manifest first, so
// that a partly deleted backup does not look usable. Then it removes everything else in its
// directory, and the claims last, so that no process writes there during the deletion. It
// may be retried, and succeeds if nothing exists.
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

// deletePrefix removes all objects below dir. It removes those that isLast selects in a
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

// DeleteOwned is Delete for the backup of one UID. It fails with a *TakenError if the name
// belongs to another UID, for example because the run of uid failed and another backup has
// taken the name since. Then nothing remains to be deleted. It does nothing for a UID that
// never claimed the name. If the manifest is damaged, the claim decides. If there is no
// readable claim either, the error is a *CorruptError.
//
// In addition to the reads of the manifests, a complete backup costs four calls to the
// object store, independent of its number of files. An incomplete one costs two more.
func (s *Store) DeleteOwned(ctx context.Context, name, uid string) error {
	there, err := s.isOwnedBy(ctx, name, uid)
	if err != nil {
		return fmt.Errorf("deleting backup %q: %w", name, err)
	}
	if !there {
		return nil // claims are removed last, so nothing of that UID remains
	}
	return s.Delete(ctx, name)
}

// IsOwnedBy reports whether anything of the backup of one UID is stored under the name,
// that is, whether DeleteOwned would remove something. It has the same errors.
func (s *Store) IsOwnedBy(ctx context.Context, name, uid string) (bool, error) {
	there, err := s.isOwnedBy(ctx, name, uid)
	if err != nil {
		return false, fmt.Errorf("determining the owner of backup %q: %w", name, err)
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
		return true, nil // no other UID can hold the name of a complete backup
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

// inspectClaim is inspectBackup for a backup whose manifest cannot be read.
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
		return nil, &CorruptError{Name: name, File: manifestName, Reason: "cannot be parsed, and no claim identifies the owner of the backup"}
	}
	return st, s.readHighestClaim(ctx, st, numbers)
}

// checkDeletable is checkAvailable, except that a claim released by another UID still makes
// the files another's.
func (st *backupState) checkDeletable() error {
	if err := st.checkAvailable(); err != nil {
		return err
	}
	if !st.isCommitted() && st.claim != nil && st.claim.BackupUID != st.uid {
		return &TakenError{Name: st.name, By: *st.claim}
	}
	return nil
}

// isCorruptError reports whether err means that stored data is damaged.
func isCorruptError(err error) bool {
	_, corrupt := errors.AsType[*CorruptError](err)
	return corrupt
}
