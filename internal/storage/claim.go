// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Claim records which Backup has taken the name.
type Claim struct {
	// BackupUID is the UID of the Backup object; required.
	BackupUID string `json:"backupUID"`
	// Cluster, Namespace and Name identify that object for users.
	Cluster   string `json:"cluster,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Created is when the claim was created, by the clock of its creator.
	Created time.Time `json:"created"`
	// Attempt is set by BeginAttempt: a random token for each attempt to write the backup.
	Attempt string `json:"attempt,omitempty"`
	// Released is set by Release.
	Released bool `json:"released,omitempty"`
}

// claimAttempts bounds the retries after a lost race. Each lost race means that another
// claim was created, so a few are enough.
const claimAttempts = 5

// Claim takes the name for claim.BackupUID. It succeeds if the name is free, was released,
// or already belongs to that UID, with or without a finished backup (see IsCommitted). Of
// several concurrent UIDs, one succeeds. The error is a *TakenError if the name belongs to
// another UID.
func (s *Store) Claim(ctx context.Context, name string, claim Claim) error {
	if err := s.claimName(ctx, name, claim); err != nil {
		return fmt.Errorf("claiming the name of backup %q: %w", name, err)
	}
	return nil
}

func (s *Store) claimName(ctx context.Context, name string, claim Claim) error {
	claim.Released, claim.Attempt = false, ""
	data, err := toIndentedJSON(claim)
	if err != nil {
		return err
	}
	for range claimAttempts {
		st, err := s.inspectBackup(ctx, name, claim.BackupUID)
		if err != nil {
			return err
		}
		if err := st.checkAvailable(); err != nil || st.isCommitted() || st.hasActiveClaim() {
			return err
		}
		err = s.putBytes(ctx, s.claimKey(name, st.claimNumber+1), data, objectstore.PutOptions{IfAbsent: true})
		switch {
		case errors.Is(err, objectstore.ErrExists):
			continue // another process was faster, perhaps for the same UID
		case err != nil:
			return err
		case s.Capabilities().PutIfAbsent:
			return nil
		}
		// Another process may have been faster without the store detecting it.
		if st, err = s.inspectBackup(ctx, name, claim.BackupUID); err != nil {
			return err
		}
		return st.checkAvailable()
	}
	return errors.New("other processes keep claiming and releasing the name")
}

// CheckClaim returns what Claim would, without a write: nil or a *TakenError.
func (s *Store) CheckClaim(ctx context.Context, name, uid string) error {
	st, err := s.inspectBackup(ctx, name, uid)
	if err == nil {
		err = st.checkAvailable()
	}
	if err != nil {
		return fmt.Errorf("checking the name of backup %q: %w", name, err)
	}
	return nil
}

// IsCommitted reports whether the backup is complete, belongs to uid, and has the files in
// its list. It is false while an attempt after the one that committed may write:
// BeginAttempt decides then.
func (s *Store) IsCommitted(ctx context.Context, name, uid string) (bool, error) {
	st, err := s.inspectBackup(ctx, name, uid)
	if err == nil && st.isCommitted() {
		err = s.checkCommittedFiles(ctx, st)
	}
	if isCorruptError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for backup %q: %w", name, err)
	}
	return st.isCommitted() && st.isLatestAttempt(), nil
}

// ClaimantUID returns the UID of the Backup that holds the claim on a name. It is "" if no
// Backup does, or if the claim cannot be parsed.
func (s *Store) ClaimantUID(ctx context.Context, name string) (uid string, err error) {
	if err := ValidateName(name); err != nil {
		return "", err
	}
	st, err := s.inspectClaim(ctx, name, "")
	switch {
	case isCorruptError(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the claim of backup %q: %w", name, err)
	case st.claim.Released:
		return "", nil
	}
	return st.claim.BackupUID, nil
}

// Release releases the name after a run that ended without a manifest. It does nothing if
// uid does not hold the name, or if its backup is complete.
func (s *Store) Release(ctx context.Context, name, uid string) error {
	if err := s.releaseName(ctx, name, uid); err != nil {
		return fmt.Errorf("releasing the name of backup %q: %w", name, err)
	}
	return nil
}

func (s *Store) releaseName(ctx context.Context, name, uid string) error {
	for range claimAttempts {
		st, err := s.inspectBackup(ctx, name, uid)
		if err != nil || st.hasManifest || !st.hasActiveClaim() {
			return err
		}
		released := *st.claim
		released.Released = true
		data, err := toIndentedJSON(released)
		if err != nil {
			return err
		}
		// Only the holder writes its own file, so replacing the file does not race with
		// another process. An attempt that began meanwhile holds the name again.
		err = s.putBytes(ctx, s.claimKey(name, st.claimNumber), data, objectstore.PutOptions{})
		if errors.Is(err, objectstore.ErrNoSpace) {
			err = s.removeClaims(ctx, st)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("other processes keep starting attempts of this backup")
}

// removeClaims releases a name in a full store: a name without a claim is free, and no
// attempt may write to it. The highest claim is the valid one, so it is removed last.
func (s *Store) removeClaims(ctx context.Context, st *backupState) error {
	var lower []string
	for base := range st.sizes {
		if number := parseClaimNumber(st.name, base); number > 0 && number < st.claimNumber {
			lower = append(lower, s.backupDir(st.name)+base)
		}
	}
	if err := s.objects.Delete(ctx, lower...); err != nil {
		return err
	}
	return s.objects.Delete(ctx, s.claimKey(st.name, st.claimNumber))
}

// backupState is the state of a backup in the store, from the view of one UID.
type backupState struct {
	name string
	uid  string
	// sizes and etags are those of the files in the directory of the backup, by name.
	sizes map[string]int64
	etags map[string]string
	// claim is the one with the highest number, if there is any.
	claim       *Claim
	claimNumber int
	// hasManifest is set if there is a manifest, grapnel if it is Grapnel's.
	hasManifest bool
	grapnel     *GrapnelManifest
	// mixedManifests is set if two processes of this UID committed at once (one of them had
	// lost its lease), and each wrote one of the manifests. No reader can use them, so the
	// holder of the claim may start over.
	mixedManifests bool
	// foreignManifest is set if there is a manifest of a system without claims, and our
	// half of a Commit beside it.
	foreignManifest bool
}

// inspectBackup reads the state of a backup. It costs one list, and one read each of the
// claim and of the existing manifests.
func (s *Store) inspectBackup(ctx context.Context, name, uid string) (*backupState, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	if uid == "" {
		return nil, errors.New("the UID of the backup is missing")
	}
	var numbers []int
	st := &backupState{name: name, uid: uid, sizes: map[string]int64{}, etags: map[string]string{}}
	for entry, err := range s.objects.List(ctx, objectstore.ListOptions{Prefix: s.backupDir(name)}) {
		if err != nil {
			return nil, err
		}
		base := entry.Key[len(s.backupDir(name)):]
		st.sizes[base], st.etags[base] = entry.Size, entry.ETag
		if number := parseClaimNumber(name, base); number > 0 {
			numbers = append(numbers, number)
		}
	}
	if err := s.readHighestClaim(ctx, st, numbers); err != nil {
		return nil, err
	}
	if _, found := st.sizes[manifestName]; found {
		if err := s.inspectManifests(ctx, st); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func (s *Store) inspectManifests(ctx context.Context, st *backupState) error {
	m, err := s.readManifestPair(ctx, st.name)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil // deleted since it was listed
	}
	if err != nil {
		return err
	}
	ours := m.grapnel != nil && m.grapnel.BackupUID == st.uid && st.hasActiveClaim()
	switch {
	case m.mismatch == nil:
		st.hasManifest, st.grapnel = true, m.grapnel
	case ours && bytes.Contains(m.velero, []byte(st.uid)):
		st.mixedManifests = true
	case ours && json.Valid(m.velero): // otherwise the manifest has no owner
		st.hasManifest, st.foreignManifest = true, true
	default:
		return m.mismatch
	}
	return nil
}

// readHighestClaim reads the claim with the highest number. A claim that cannot be parsed
// does not count: some stores keep a part of a failed Put. The one before it counts then,
// but the number stays taken.
func (s *Store) readHighestClaim(ctx context.Context, st *backupState, numbers []int) (err error) {
	slices.Sort(numbers)
	for _, number := range slices.Backward(numbers) {
		st.claimNumber = max(st.claimNumber, number)
		if st.claim, err = s.readClaim(ctx, st.name, number); !isCorruptError(err) {
			return err
		}
	}
	return err
}

func (s *Store) readClaim(ctx context.Context, name string, number int) (*Claim, error) {
	key := s.claimKey(name, number)
	data, err := s.readJSONFile(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("reading the claim: %w", err)
	}
	claim := &Claim{}
	if err := json.Unmarshal(data, claim); err != nil || claim.BackupUID == "" {
		return nil, &CorruptError{Name: name, File: path.Base(key), Reason: "is not a claim"}
	}
	return claim, nil
}

// isCommitted reports whether the backup is complete, and ours.
func (st *backupState) isCommitted() bool {
	return st.hasManifest && st.grapnel != nil && st.grapnel.BackupUID == st.uid
}

// isLatestAttempt reports whether no attempt has begun after the one that committed.
func (st *backupState) isLatestAttempt() bool {
	return st.claim == nil || st.claim.Attempt == st.grapnel.Attempt
}

// hasActiveClaim reports whether the claim is ours and not released.
func (st *backupState) hasActiveClaim() bool {
	return st.claim != nil && st.claim.BackupUID == st.uid && !st.claim.Released
}

// checkAvailable returns a *TakenError if the name belongs to another UID.
func (st *backupState) checkAvailable() error {
	switch {
	case st.isCommitted():
		return nil
	case st.hasManifest:
		taken := &TakenError{Name: st.name, Finished: true}
		if st.grapnel != nil {
			taken.By.BackupUID = st.grapnel.BackupUID
			if st.claim != nil && st.claim.BackupUID == st.grapnel.BackupUID {
				taken.By = *st.claim
			}
		}
		return taken
	case st.claim != nil && !st.claim.Released && st.claim.BackupUID != st.uid:
		return &TakenError{Name: st.name, By: *st.claim}
	}
	return nil
}
