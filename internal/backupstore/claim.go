// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// Claim says who has taken the name of a backup.
type Claim struct {
	// BackupUID is the UID of the Backup object; required.
	BackupUID string `json:"backupUID"`
	// Cluster, Namespace and Name tell people where that object is.
	Cluster   string `json:"cluster,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Created is when the claim was made, by the clock of who made it.
	Created time.Time `json:"created"`
	// Attempt is set by BeginAttempt: a random word for each attempt to write the backup.
	Attempt string `json:"attempt,omitempty"`
	// Released is set by Release.
	Released bool `json:"released,omitempty"`
}

// claimAttempts bounds how often a lost race is looked at again. Each lost
// race means that another claim was made, so a few are plenty.
const claimAttempts = 5

// Claim takes the name for claim.BackupUID. It succeeds if the name is free,
// was released, or belongs to that UID already, with or without a finished
// backup (see Committed); of several UIDs at the same time one succeeds. The
// error is a *TakenError if it belongs to another.
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
			continue // Somebody was faster, perhaps we ourselves.
		case err != nil:
			return err
		case s.Capabilities().PutIfAbsent:
			return nil
		}
		// Somebody may have been faster without the store noticing.
		if st, err = s.inspectBackup(ctx, name, claim.BackupUID); err != nil {
			return err
		}
		return st.checkAvailable()
	}
	return errors.New("others keep claiming and releasing the name")
}

// CheckClaim says what Claim would, without writing anything: nil or a *TakenError.
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

// IsCommitted reports whether the backup is complete, belongs to uid, and has the files
// that it lists. It is false while a later attempt than the one that committed may write:
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

// ClaimantUID returns the UID of the Backup that holds the claim on a name; "" if none does, or
// if the claim cannot be understood.
func (s *Store) ClaimantUID(ctx context.Context, name string) (uid string, err error) {
	if err := ValidateName(name); err != nil {
		return "", err
	}
	st, err := s.inspectClaim(ctx, name, "")
	switch {
	case isCorruptError(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading who claimed the name of backup %q: %w", name, err)
	case st.claim.Released:
		return "", nil
	}
	return st.claim.BackupUID, nil
}

// Release gives the name back after a run that ended without a manifest. It
// does nothing if uid does not hold the name, or if its backup is complete.
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
		// Only the holder writes its own file, so replacing it races with no other process. An
		// attempt that began meanwhile holds the name again.
		err = s.putBytes(ctx, s.claimKey(name, st.claimNumber), data, objectstore.PutOptions{})
		if errors.Is(err, objectstore.ErrNoSpace) {
			err = s.removeClaims(ctx, st)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("other processes keep beginning attempts of it")
}

// removeClaims releases a name in a store that is full: a name without a claim is free,
// and no attempt may write to it. The highest claim is the last to go, as it counts.
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

// backupState is what there is of a backup, seen by one UID.
type backupState struct {
	name string
	uid  string
	// sizes and etags of the files in the directory of the backup, by name.
	sizes map[string]int64
	etags map[string]string
	// claim is the one with the highest number, if there is any.
	claim       *Claim
	claimNumber int
	// hasManifest is set if there is a manifest, grapnel if it is Grapnel's.
	hasManifest bool
	grapnel     *GrapnelManifest
	// mixedManifests: two processes of this UID committed at once (one of them had lost
	// its lease), and the manifests are one of each. Nobody could use them, so
	// the holder of the claim may start over.
	mixedManifests bool
	// foreignManifest: there is a manifest of a system that knows no claims, and our half
	// of a Commit beside it.
	foreignManifest bool
}

// inspectBackup looks at a backup: one list, and one read each of the claim and of
// the manifests that exist.
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
		return nil // Deleted since it was listed.
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
	case ours && json.Valid(m.velero): // else it is nobody's manifest
		st.hasManifest, st.foreignManifest = true, true
	default:
		return m.mismatch
	}
	return nil
}

// readHighestClaim reads the claim with the highest number. One that cannot be understood was
// never made: some stores keep a part of a Put that failed. The one before it counts then,
// and the number is taken all the same.
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

// isCommitted: the backup is complete, and ours.
func (st *backupState) isCommitted() bool {
	return st.hasManifest && st.grapnel != nil && st.grapnel.BackupUID == st.uid
}

// isLatestAttempt: no attempt has begun after the one that committed.
func (st *backupState) isLatestAttempt() bool {
	return st.claim == nil || st.claim.Attempt == st.grapnel.Attempt
}

// hasActiveClaim: the claim is ours and in force.
func (st *backupState) hasActiveClaim() bool {
	return st.claim != nil && st.claim.BackupUID == st.uid && !st.claim.Released
}

// checkAvailable returns a TakenError if the name belongs to another.
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
