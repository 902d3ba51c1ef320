// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

const (
	// maxReadBackBytes is how much of a file is read after a commit in a store that does not
	// tell when an object changes.
	maxReadBackBytes = 64 << 20

	// manifestRemovalTimeout bounds the removal of a manifest that must not stay, when the
	// context of the commit has ended.
	manifestRemovalTimeout = 30 * time.Second
)

// Attempt is one try to write a backup. Its number is the highest claim of the name, and
// each of its writes fails with ErrSuperseded once there is a higher one. It is safe for
// concurrent use.
type Attempt struct {
	store  *Store
	name   string
	uid    string
	number int
	// token tells it from another one that took the same number in a store that cannot
	// put if absent.
	token string

	mu    sync.Mutex
	etags map[File]string
}

// BeginAttempt takes the next number for uid, which must hold the name. From then on the
// earlier attempts of that UID cannot write, whichever process they are in. The error is
// ErrCommitted if the backup is complete and verified, a *TakenError or ErrNotClaimed. A
// manifest whose files are not those that it lists is removed.
func (s *Store) BeginAttempt(ctx context.Context, name, uid string) (*Attempt, error) {
	a, err := s.beginAttempt(ctx, name, uid)
	if err != nil {
		return nil, fmt.Errorf("beginning an attempt of backup %q: %w", name, err)
	}
	return a, nil
}

func (s *Store) beginAttempt(ctx context.Context, name, uid string) (*Attempt, error) {
	st, err := s.inspectBackup(ctx, name, uid)
	if err != nil {
		return nil, err
	}
	if st.isCommitted() && (st.isLatestAttempt() || !st.hasActiveClaim()) {
		err := s.checkCommittedFiles(ctx, st)
		switch {
		case err == nil:
			return nil, ErrCommitted
		case !isCorruptError(err) || !st.hasActiveClaim():
			return nil, err
		}
	}
	a, st, err := s.claimAttemptNumber(ctx, name, uid)
	if err != nil {
		return nil, err
	}
	if st.isCommitted() {
		// An attempt that committed before it could see the new number counts.
		err := s.checkCommittedFiles(ctx, st)
		switch {
		case err == nil:
			return nil, ErrCommitted
		case !isCorruptError(err):
			return nil, err
		}
	}
	if st.isCommitted() || st.mixedManifests {
		err = s.objects.Delete(ctx, s.manifestKey(name))
	}
	return a, err
}

// claimAttemptNumber makes the next claim of uid, and returns what there is of the backup then.
func (s *Store) claimAttemptNumber(ctx context.Context, name, uid string) (*Attempt, *backupState, error) {
	for range claimAttempts {
		st, err := s.inspectBackup(ctx, name, uid)
		switch {
		case err != nil:
			return nil, nil, err
		case st.checkAvailable() != nil:
			return nil, nil, st.checkAvailable()
		case !st.hasActiveClaim():
			return nil, nil, ErrNotClaimed
		}
		a := &Attempt{store: s, name: name, uid: uid, number: st.claimNumber + 1, token: rand.Text(), etags: map[File]string{}}
		claim := *st.claim
		claim.Attempt = a.token
		data, err := toIndentedJSON(claim)
		if err != nil {
			return nil, nil, err
		}
		err = s.putBytes(ctx, s.claimKey(name, a.number), data, objectstore.PutOptions{IfAbsent: true})
		if errors.Is(err, objectstore.ErrExists) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if st, err = s.inspectBackup(ctx, name, uid); err == nil {
			err = a.checkHighestClaim(st)
		}
		if err == nil {
			s.removeOldClaims(ctx, st)
		}
		return a, st, err
	}
	return nil, nil, errors.New("other processes keep beginning attempts of it")
}

// maxClaims is how many claims of a backup may be left before the old ones are removed.
const maxClaims = 8

// removeOldClaims removes claims that say nothing any more, of a run whose steps are
// repeated for hours. A process that still believes in one of them finds the highest.
func (s *Store) removeOldClaims(ctx context.Context, st *backupState) {
	var old []string
	for base := range st.sizes {
		if number := parseClaimNumber(st.name, base); number > 0 && number < st.claimNumber {
			old = append(old, s.backupDir(st.name)+base)
		}
	}
	if len(old) < maxClaims {
		return
	}
	if err := s.objects.Delete(ctx, old...); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Removing old claims of the backup failed, they cost a little space")
	}
}

// EndAttempts ends every attempt of uid, and removes the manifest that one of them may have
// written: of a run that ended without a backup. What is left is removed by Discard. The
// error is ErrNotClaimed if uid does not hold the name, or a *TakenError.
func (s *Store) EndAttempts(ctx context.Context, name, uid string) error {
	_, st, err := s.claimAttemptNumber(ctx, name, uid)
	if err == nil && (st.isCommitted() || st.mixedManifests) {
		err = s.objects.Delete(ctx, s.manifestKey(name))
	}
	if err != nil {
		return fmt.Errorf("withdrawing backup %q: %w", name, err)
	}
	return nil
}

// checkHighestClaim returns an error unless the attempt may write.
func (a *Attempt) checkHighestClaim(st *backupState) error {
	if st.claim != nil && st.claim.BackupUID == a.uid && st.claim.Released {
		return ErrNotClaimed
	}
	if err := st.checkAvailable(); err != nil {
		return err
	}
	if !st.hasActiveClaim() {
		return ErrNotClaimed
	}
	if st.claimNumber != a.number || st.claim.Attempt != a.token {
		return ErrSuperseded
	}
	return nil
}

// checkCurrent is checkHighestClaim for what is stored now, and an error if the backup is complete.
func (a *Attempt) checkCurrent(ctx context.Context) (*backupState, error) {
	st, err := a.store.inspectBackup(ctx, a.name, a.uid)
	if err != nil {
		return nil, err
	}
	if st.isCommitted() && st.grapnel.Attempt == a.token {
		return nil, ErrCommitted
	}
	return st, a.checkHighestClaim(st)
}

// PutContents stores the archive that r yields. That the attempt is the highest is
// checked before the first byte and again before the upload is completed. An archive of
// an earlier attempt is removed first, so that none can take the place of this one where
// the store can put if absent: then the error is ErrOverwritten. The other errors are
// ErrSuperseded, ErrNotClaimed, a *TakenError or ErrCommitted; r's own error is wrapped,
// and nothing becomes visible with any of them.
func (a *Attempt) PutContents(ctx context.Context, r io.Reader) (Digest, error) {
	digest, err := a.putIfHighest(ctx, Contents, r)
	if err != nil {
		return Digest{}, fmt.Errorf("storing the archive of backup %q: %w", a.name, err)
	}
	return digest, nil
}

// PutFile stores a file of the backup, which the caller has compressed, as PutContents
// does.
func (a *Attempt) PutFile(ctx context.Context, file File, r io.Reader) (Digest, error) {
	digest, err := a.putIfHighest(ctx, file, r)
	if err != nil {
		return Digest{}, fmt.Errorf("storing %s of backup %q: %w", file, a.name, err)
	}
	return digest, nil
}

// PutJSON is PutFile for the compressed JSON of v. The same v gives the same bytes.
func (a *Attempt) PutJSON(ctx context.Context, file File, v any) (Digest, error) {
	return putJSONFile(v, func(r io.Reader) (Digest, error) { return a.PutFile(ctx, file, r) })
}

func (a *Attempt) putIfHighest(ctx context.Context, file File, r io.Reader) (Digest, error) {
	key, err := a.store.fileKey(a.name, file)
	if err != nil {
		return Digest{}, err
	}
	st, err := a.checkCurrent(ctx)
	if err != nil {
		return Digest{}, err
	}
	if st.hasFile(FileName(a.name, file)) {
		if err := a.store.objects.Delete(ctx, key); err != nil {
			return Digest{}, err
		}
	}
	if file == Contents || file == MergedContents { // those that are large
		a.store.abortUploads(ctx, key)
	}
	check := func() error { _, err := a.checkCurrent(ctx); return err }
	digest, etag, err := a.store.putWithDigest(ctx, key, newDigester(r, check), objectstore.PutOptions{IfAbsent: true})
	if errors.Is(err, objectstore.ErrExists) {
		if checkErr := check(); checkErr != nil {
			return Digest{}, checkErr
		}
		return Digest{}, fmt.Errorf("%w: %w", ErrOverwritten, err)
	}
	if err != nil {
		return Digest{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.etags[file] = etag
	return digest, nil
}

// RemoveDraft is [Store.RemoveDraft] for an attempt that does without the draft of an
// earlier one.
func (a *Attempt) RemoveDraft(ctx context.Context) error {
	if _, err := a.checkCurrent(ctx); err != nil {
		return fmt.Errorf("removing the draft of backup %q: %w", a.name, err)
	}
	return a.store.RemoveDraft(ctx, a.name, a.uid)
}

// GetFile opens a file of the backup as [Store.Get] does.
func (a *Attempt) GetFile(ctx context.Context, file File) (io.ReadCloser, error) {
	return a.store.GetFile(ctx, a.name, file)
}

// ETag returns the ETag that a file had when this attempt stored it, or "".
func (a *Attempt) ETag(file File) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.etags[file]
}

// Commit completes the backup: it checks that the files of the manifest are there with
// their sizes, writes <b>-grapnel.json and then velero-backup.json, with put-if-absent
// where the store can, and checks then that each file is still the one that was stored
// and that no later attempt has begun. Until the manifest is written the backup does not
// exist for anybody. Committing the same again succeeds.
//
// The error is ErrCommitted if this attempt committed something else before,
// ErrSuperseded if there is a later attempt, a *TakenError if another UID did, ErrNotClaimed without a
// claim, and a *CorruptError if a file is missing or has another size, which some stores
// do not tell. It is ErrOverwritten if a file was replaced: the manifest is removed then,
// and the caller has to begin another attempt.
func (a *Attempt) Commit(ctx context.Context, m Manifest) error {
	if err := a.commitManifest(ctx, m); err != nil {
		return fmt.Errorf("committing backup %q: %w", a.name, err)
	}
	return nil
}

func (a *Attempt) commitManifest(ctx context.Context, m Manifest) error {
	grapnel, err := a.sealManifest(&m)
	if err != nil {
		return err
	}
	for range commitAttempts {
		done, err := a.tryCommitManifest(ctx, m, grapnel)
		if done || err != nil {
			return err
		}
	}
	return errors.New("another process keeps committing the same backup")
}

// tryCommitManifest returns false if a manifest appeared or vanished between our look and our
// write, so that one has to look again.
func (a *Attempt) tryCommitManifest(ctx context.Context, m Manifest, grapnel []byte) (bool, error) {
	s := a.store
	st, err := s.inspectBackup(ctx, a.name, a.uid)
	if err != nil {
		return false, err
	}
	if st.foreignManifest {
		// Our half must not pass for that of the other system's backup.
		return false, errors.Join(st.checkAvailable(), s.objects.Delete(ctx, s.grapnelKey(a.name)))
	}
	if st.isCommitted() && st.grapnel.Attempt == a.token {
		if err := s.compareManifests(ctx, a.name, m.VeleroBackup, grapnel); err != nil {
			return false, err
		}
		return a.confirmCommit(ctx, m)
	}
	if err := a.checkHighestClaim(st); err != nil {
		return false, err
	}
	if err := st.checkListedFiles(m.Grapnel.Files); err != nil {
		return false, err
	}
	if st.mixedManifests || st.isCommitted() { // by an earlier attempt, which finds that this one has begun
		if err := s.objects.Delete(ctx, s.manifestKey(a.name)); err != nil {
			return false, err
		}
	}
	if done, err := a.putManifests(ctx, st, m, grapnel); !done || err != nil {
		return false, err
	}
	return a.confirmCommit(ctx, m)
}

// putManifests writes both, and returns false if one of them appeared meanwhile. Neither
// replaces another one: a write of an earlier attempt may be carried out at any time.
func (a *Attempt) putManifests(ctx context.Context, st *backupState, m Manifest, grapnel []byte) (bool, error) {
	s := a.store
	if st.hasFile(a.name + grapnelSuffix) {
		if err := s.objects.Delete(ctx, s.grapnelKey(a.name)); err != nil {
			return false, err
		}
	}
	err := s.putBytes(ctx, s.grapnelKey(a.name), grapnel, objectstore.PutOptions{IfAbsent: true})
	if err == nil {
		err = s.putBytes(ctx, s.manifestKey(a.name), m.VeleroBackup, objectstore.PutOptions{IfAbsent: true})
	}
	if errors.Is(err, objectstore.ErrExists) {
		return false, nil
	}
	return err == nil, err
}

// confirmCommit finds out whether the manifest of this attempt may stay. It is written before
// that is checked, and a later attempt takes its number before it looks for a manifest:
// so at least one of the two sees the other.
func (a *Attempt) confirmCommit(ctx context.Context, m Manifest) (bool, error) {
	st, err := a.store.inspectBackup(ctx, a.name, a.uid)
	if err != nil {
		return false, err
	}
	if err := a.checkHighestClaim(st); err != nil {
		if !st.hasActiveClaim() { // nobody else puts it right
			err = errors.Join(err, a.removeOwnManifest(ctx, m.VeleroBackup))
		}
		return false, err
	}
	if !st.isCommitted() || st.grapnel.Attempt != a.token {
		return false, nil
	}
	if err := a.store.checkManifestFiles(ctx, st, m.Grapnel); isCorruptError(err) {
		return false, errors.Join(fmt.Errorf("%w: %w", ErrOverwritten, err), a.removeOwnManifest(ctx, m.VeleroBackup))
	} else if err != nil {
		return false, err
	}
	return true, nil
}

// removeOwnManifest removes the manifest of this attempt, of which Grapnel's half may be gone.
func (a *Attempt) removeOwnManifest(ctx context.Context, velero []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), manifestRemovalTimeout)
	defer cancel()
	m, err := a.store.readManifestPair(ctx, a.name)
	switch {
	case errors.Is(err, objectstore.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !bytes.Equal(m.velero, velero), m.grapnel != nil && m.grapnel.Attempt != a.token:
		return nil
	}
	return a.store.objects.Delete(ctx, a.store.manifestKey(a.name))
}

// checkCommittedFiles checks that a complete backup of this UID has the files that it lists. The
// error is a *CorruptError if not.
func (s *Store) checkCommittedFiles(ctx context.Context, st *backupState) error {
	return s.checkManifestFiles(ctx, st, *st.grapnel)
}

// checkManifestFiles compares the files that are there with those of a manifest: by what the
// store tells of them, and by their digest where that is not enough. An ETag alone never
// condemns a file.
func (s *Store) checkManifestFiles(ctx context.Context, st *backupState, m GrapnelManifest) error {
	if err := st.checkListedFiles(m.Files); err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(m.Files)) {
		passes, err := s.isFileUnchanged(ctx, st, file, m)
		if err == nil && !passes {
			err = s.verifyFileDigest(ctx, st.name, file, m.Files[file])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isFileUnchanged reports whether a file need not be read, as the store tells that it is
// still the one that was stored, or cannot tell and the file is large.
func (s *Store) isFileUnchanged(ctx context.Context, st *backupState, file File, m GrapnelManifest) (bool, error) {
	stored := m.ETags[file]
	switch st.etags[FileName(st.name, file)] {
	case "":
		return m.Files[file].Size > maxReadBackBytes, nil
	case stored:
		return true, nil
	}
	if stored == "" {
		return false, nil
	}
	// Some stores write it in another way in a list.
	key, err := s.fileKey(st.name, file)
	if err != nil {
		return false, nil //nolint:nilerr // verifyFileDigest says what is wrong with the manifest
	}
	info, err := s.objects.Stat(ctx, key)
	if errors.Is(err, objectstore.ErrNotExist) {
		return false, nil // verifyFileDigest says so
	}
	return err == nil && info.ETag == stored && info.Size == m.Files[file].Size, err
}
