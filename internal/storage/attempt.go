// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

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

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	// maxReadBackBytes is how much of a file is read after a commit if the store does not
	// report changes of objects.
	maxReadBackBytes = 64 << 20

	// manifestRemovalTimeout bounds the removal of an invalid manifest after the context of
	// the commit has ended.
	manifestRemovalTimeout = 30 * time.Second
)

// Attempt is one attempt to write a backup. Its number is the highest claim of the name.
// Its writes fail with ErrSuperseded once there is a higher claim. It is safe for
// concurrent use.
type Attempt struct {
	store  *Store
	name   string
	uid    string
	number int
	// token distinguishes it from another attempt that took the same number in a store
	// without put-if-absent.
	token string

	mu    sync.Mutex
	etags map[File]string
}

// BeginAttempt takes the next number for uid, which must hold the name. From then on the
// earlier attempts of that UID cannot write, in whichever process. The error is
// ErrCommitted if the backup is complete and verified, a *TakenError or ErrNotClaimed.
// BeginAttempt removes a manifest whose files do not match its list.
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
		// An attempt that committed before it could see the new number is valid.
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

// claimAttemptNumber creates the next claim of uid, and returns the state of the backup
// after that.
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
	return nil, nil, errors.New("other processes keep starting attempts of this backup")
}

// maxClaims is how many claims of a backup may remain before the old ones are removed.
const maxClaims = 8

// removeOldClaims removes obsolete claims of a run whose steps are retried for hours. A
// process that still relies on one of them finds the highest claim.
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
		logr.FromContextOrDiscard(ctx).Error(err, "Removing old claims of the backup failed; they use a little space")
	}
}

// EndAttempts ends every attempt of uid after a run without a backup, and removes the
// manifest that one of them may have written. Discard removes the other files. The error is
// ErrNotClaimed if uid does not hold the name, or a *TakenError.
func (s *Store) EndAttempts(ctx context.Context, name, uid string) error {
	_, st, err := s.claimAttemptNumber(ctx, name, uid)
	if err == nil && (st.isCommitted() || st.mixedManifests) {
		err = s.objects.Delete(ctx, s.manifestKey(name))
	}
	if err != nil {
		return fmt.Errorf("ending the attempts of backup %q: %w", name, err)
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

// checkCurrent is checkHighestClaim for the current state of the store. It also fails if
// the backup is complete.
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

// PutContents stores the archive that r yields. It checks that the attempt is the highest
// before the first byte and again before it completes the upload. It first removes the
// archive of an earlier attempt. In a store with put-if-absent, no other archive can then
// replace this one: the error is ErrOverwritten. The other errors are ErrSuperseded,
// ErrNotClaimed, a *TakenError or ErrCommitted. The error of r is wrapped. After any error,
// nothing becomes visible.
func (a *Attempt) PutContents(ctx context.Context, r io.Reader) (Digest, error) {
	digest, err := a.putIfHighest(ctx, Contents, r)
	if err != nil {
		return Digest{}, fmt.Errorf("storing the archive of backup %q: %w", a.name, err)
	}
	return digest, nil
}

// PutFile stores a file of the backup like PutContents. The caller has compressed the file.
func (a *Attempt) PutFile(ctx context.Context, file File, r io.Reader) (Digest, error) {
	digest, err := a.putIfHighest(ctx, file, r)
	if err != nil {
		return Digest{}, fmt.Errorf("storing %s of backup %q: %w", file, a.name, err)
	}
	return digest, nil
}

// PutJSON is PutFile for the compressed JSON of v. Equal values result in equal bytes.
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
	if file == Contents || file == MergedContents { // the large files
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

// RemoveDraft is [Store.RemoveDraft] for an attempt that does not use the draft of an
// earlier one.
func (a *Attempt) RemoveDraft(ctx context.Context) error {
	if _, err := a.checkCurrent(ctx); err != nil {
		return fmt.Errorf("removing the draft of backup %q: %w", a.name, err)
	}
	return a.store.RemoveDraft(ctx, a.name, a.uid)
}

// GetFile opens a file of the backup like [Store.GetFile].
func (a *Attempt) GetFile(ctx context.Context, file File) (io.ReadCloser, error) {
	return a.store.GetFile(ctx, a.name, file)
}

// ETag returns the ETag of a file when this attempt stored it, or "".
func (a *Attempt) ETag(file File) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.etags[file]
}

// Commit completes the backup. It checks that the files of the manifest exist with their
// sizes. It writes <b>-grapnel.json and then velero-backup.json, with put-if-absent where
// the store supports it. Then it checks that each file is still the stored one and that no
// later attempt has begun. Until the manifest is written, the backup does not exist for any
// reader. A second Commit of the same content succeeds.
//
// The error is ErrCommitted if this attempt committed something else before, ErrSuperseded
// if there is a later attempt, a *TakenError if another UID did, and ErrNotClaimed without
// a claim. It is a *CorruptError if a file is missing or has another size, which some
// stores do not report. It is ErrOverwritten if a file was replaced: Commit then removes
// the manifest, and the caller has to begin another attempt.
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

// tryCommitManifest returns false if a manifest was created or removed between its read and
// its write, so that Commit has to read again.
func (a *Attempt) tryCommitManifest(ctx context.Context, m Manifest, grapnel []byte) (bool, error) {
	s := a.store
	st, err := s.inspectBackup(ctx, a.name, a.uid)
	if err != nil {
		return false, err
	}
	if st.foreignManifest {
		// Our half must not be taken for that of the other system's backup.
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
	if st.mixedManifests || st.isCommitted() { // by an earlier attempt, which detects this one
		if err := s.objects.Delete(ctx, s.manifestKey(a.name)); err != nil {
			return false, err
		}
	}
	if done, err := a.putManifests(ctx, st, m, grapnel); !done || err != nil {
		return false, err
	}
	return a.confirmCommit(ctx, m)
}

// putManifests writes both manifests, and returns false if one of them was created
// meanwhile. It replaces neither, because a write of an earlier attempt may take effect at
// any time.
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

// confirmCommit determines whether the manifest of this attempt is valid. The attempt
// writes the manifest before this check, and a later attempt takes its number before it
// looks for a manifest. So at least one of the two sees the other.
func (a *Attempt) confirmCommit(ctx context.Context, m Manifest) (bool, error) {
	st, err := a.store.inspectBackup(ctx, a.name, a.uid)
	if err != nil {
		return false, err
	}
	if err := a.checkHighestClaim(st); err != nil {
		if !st.hasActiveClaim() { // no other process corrects this
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

// removeOwnManifest removes the manifest of this attempt. Grapnel's half may already be
// missing.
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

// checkCommittedFiles checks that a complete backup of this UID has the files in its list.
// If not, the error is a *CorruptError.
func (s *Store) checkCommittedFiles(ctx context.Context, st *backupState) error {
	return s.checkManifestFiles(ctx, st, *st.grapnel)
}

// checkManifestFiles compares the existing files with those of a manifest: by their
// metadata in the store, and by their digest where that is not enough. A different ETag
// alone never makes a file corrupt.
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

// isFileUnchanged reports whether a file need not be read, because the store reports that
// it is unchanged, or because the store cannot report changes and the file is large.
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
	// Some stores write the ETag in another form in a list.
	key, err := s.fileKey(st.name, file)
	if err != nil {
		return false, nil //nolint:nilerr // verifyFileDigest reports what is wrong with the manifest
	}
	info, err := s.objects.Stat(ctx, key)
	if errors.Is(err, objectstore.ErrNotExist) {
		return false, nil // verifyFileDigest reports it
	}
	return err == nil && info.ETag == stored && info.Size == m.Files[file].Size, err
}
