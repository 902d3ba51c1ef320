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
	if err := s.claim(ctx, name, claim); err != nil {
		return fmt.Errorf("claiming the name of backup %q: %w", name, err)
	}
	return nil
}

func (s *Store) claim(ctx context.Context, name string, claim Claim) error {
	claim.Released = false
	data, err := toJSON(claim)
	if err != nil {
		return err
	}
	for range claimAttempts {
		st, err := s.inspect(ctx, name, claim.BackupUID)
		if err != nil {
			return err
		}
		if err := st.available(); err != nil || st.committed() || st.holds() {
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
		if st, err = s.inspect(ctx, name, claim.BackupUID); err != nil {
			return err
		}
		return st.available()
	}
	return errors.New("others keep claiming and releasing the name")
}

// Check says what Claim would, without writing anything: nil or a *TakenError.
func (s *Store) Check(ctx context.Context, name, uid string) error {
	st, err := s.inspect(ctx, name, uid)
	if err == nil {
		err = st.available()
	}
	if err != nil {
		return fmt.Errorf("checking the name of backup %q: %w", name, err)
	}
	return nil
}

// Committed says whether the backup is complete and belongs to uid: what a run
// asks that continues one that was interrupted.
func (s *Store) Committed(ctx context.Context, name, uid string) (bool, error) {
	st, err := s.inspect(ctx, name, uid)
	if err != nil {
		return false, fmt.Errorf("looking for backup %q: %w", name, err)
	}
	return st.committed(), nil
}

// Release gives the name back after a run that ended without a manifest. It
// does nothing if uid does not hold the name, or if its backup is complete.
func (s *Store) Release(ctx context.Context, name, uid string) error {
	if err := s.release(ctx, name, uid); err != nil {
		return fmt.Errorf("releasing the name of backup %q: %w", name, err)
	}
	return nil
}

func (s *Store) release(ctx context.Context, name, uid string) error {
	st, err := s.inspect(ctx, name, uid)
	if err != nil || st.finished || !st.holds() {
		return err
	}
	released := *st.claim
	released.Released = true
	data, err := toJSON(released)
	if err != nil {
		return err
	}
	// Only the holder writes its own file, so replacing it races with nobody.
	return s.putBytes(ctx, s.claimKey(name, st.claimNumber), data, objectstore.PutOptions{})
}

// state is what there is of a backup, seen by one UID.
type state struct {
	name string
	uid  string
	// sizes of the files in the folder of the backup, by name.
	sizes map[string]int64
	// claim is the one with the highest number, if there is any.
	claim       *Claim
	claimNumber int
	// finished is set if there is a manifest, grapnel if it is Grapnel's.
	finished bool
	grapnel  *GrapnelManifest
	// torn: two processes of this UID committed at once (one of them had lost
	// its lease), and the manifests are one of each. Nobody could use them, so
	// the holder of the claim may start over.
	torn bool
	// stray: there is a manifest of a system that knows no claims, and our half
	// of a Commit beside it.
	stray bool
}

// inspect looks at a backup: one list, and one read each of the claim and of
// the manifests that exist.
func (s *Store) inspect(ctx context.Context, name, uid string) (*state, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	if uid == "" {
		return nil, errors.New("the UID of the backup is missing")
	}
	st := &state{name: name, uid: uid, sizes: map[string]int64{}}
	for entry, err := range s.objects.List(ctx, objectstore.ListOptions{Prefix: s.backupDir(name)}) {
		if err != nil {
			return nil, err
		}
		base := entry.Key[len(s.backupDir(name)):]
		st.sizes[base] = entry.Size
		st.claimNumber = max(st.claimNumber, claimNumber(name, base))
	}
	if st.claimNumber > 0 {
		var err error
		if st.claim, err = s.readClaim(ctx, name, st.claimNumber); err != nil {
			return nil, err
		}
	}
	if _, found := st.sizes[manifestName]; found {
		if err := s.inspectManifests(ctx, st); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func (s *Store) inspectManifests(ctx context.Context, st *state) error {
	m, err := s.manifests(ctx, st.name)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil // Deleted since it was listed.
	}
	if err != nil {
		return err
	}
	ours := m.grapnel != nil && m.grapnel.BackupUID == st.uid && st.holds()
	switch {
	case m.mismatch == nil:
		st.finished, st.grapnel = true, m.grapnel
	case ours && bytes.Contains(m.velero, []byte(st.uid)):
		st.torn = true
	case ours && json.Valid(m.velero): // else it is nobody's manifest
		st.finished, st.stray = true, true
	default:
		return m.mismatch
	}
	return nil
}

func (s *Store) readClaim(ctx context.Context, name string, number int) (*Claim, error) {
	key := s.claimKey(name, number)
	data, err := s.readJSON(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("reading the claim: %w", err)
	}
	claim := &Claim{}
	if err := json.Unmarshal(data, claim); err != nil || claim.BackupUID == "" {
		return nil, &CorruptError{Name: name, File: path.Base(key), Reason: "is not a claim"}
	}
	return claim, nil
}

// committed: the backup is complete, and ours.
func (st *state) committed() bool {
	return st.finished && st.grapnel != nil && st.grapnel.BackupUID == st.uid
}

// holds: the claim is ours and in force.
func (st *state) holds() bool {
	return st.claim != nil && st.claim.BackupUID == st.uid && !st.claim.Released
}

// available returns a TakenError if the name belongs to another.
func (st *state) available() error {
	switch {
	case st.committed():
		return nil
	case st.finished:
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

// writable returns an error unless the UID may write to its backup.
func (st *state) writable() error {
	if err := st.available(); err != nil {
		return err
	}
	if st.committed() {
		return ErrCommitted
	}
	if !st.holds() {
		return ErrNotClaimed
	}
	return nil
}
