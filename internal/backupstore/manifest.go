// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// ManifestVersion is the version of GrapnelManifest that Commit writes and
// that this package can read.
const ManifestVersion = 1

// commitAttempts bounds how often Commit looks again after a lost race.
const commitAttempts = 3

// Manifest is what Commit writes.
type Manifest struct {
	// VeleroBackup is velero-backup.json: a velero.io/v1 Backup, which Velero
	// servers read. It should contain the UID of the Backup (metadata.uid), by
	// which a process recognises the manifest of another one that worked for
	// the same UID.
	VeleroBackup []byte
	// Grapnel is <b>-grapnel.json.
	Grapnel GrapnelManifest
}

// GrapnelManifest is what Grapnel itself needs to know of a backup.
type GrapnelManifest struct {
	// Version is set by Commit.
	Version int `json:"version"`
	// BackupUID is the UID of the Backup object that made it; required.
	BackupUID string `json:"backupUID"`
	// VeleroBackup is the digest of velero-backup.json, set by Commit. It ties
	// the two manifests together.
	VeleroBackup Digest `json:"veleroBackup"`
	// Files are the digests of the files that belong to the complete backup,
	// as PutContents, PutFile and PutJSON returned them. Contents is required.
	Files map[File]Digest `json:"files"`
	// Outputs of the hook actions, by the name of the action.
	Outputs map[string]map[string]string `json:"outputs,omitempty"`
	// Backup is the Backup object as JSON.
	Backup json.RawMessage `json:"backup,omitempty"`
}

// Commit completes the backup: it checks that the files of the manifest are
// there with their sizes, writes <b>-grapnel.json and then velero-backup.json,
// with put-if-absent where the store can. Until the last write the backup does
// not exist for anybody. Committing the same again succeeds. The error is
// ErrCommitted if the same UID committed something else before, a *TakenError
// if another did, ErrNotClaimed without a claim, and a *CorruptError if a file
// is missing or has another size, which some stores do not tell.
func (s *Store) Commit(ctx context.Context, name string, m Manifest) error {
	if err := s.commit(ctx, name, m); err != nil {
		return fmt.Errorf("committing backup %q: %w", name, err)
	}
	return nil
}

func (s *Store) commit(ctx context.Context, name string, m Manifest) error {
	if !json.Valid(m.VeleroBackup) {
		return errors.New("velero-backup.json is not valid JSON")
	}
	m.Grapnel.Version = ManifestVersion
	m.Grapnel.VeleroBackup = digestOf(m.VeleroBackup)
	grapnel, err := toJSON(m.Grapnel)
	if err != nil {
		return err
	}
	if size := max(len(grapnel), len(m.VeleroBackup)); size > maxJSON {
		return fmt.Errorf("a manifest of %d bytes could not be read again, as it may have %d", size, maxJSON)
	}
	for range commitAttempts {
		done, err := s.tryCommit(ctx, name, m, grapnel)
		if done || err != nil {
			return err
		}
	}
	return errors.New("another process keeps committing the same backup")
}

// tryCommit returns false if a manifest appeared between our look and our
// write, so that one has to look again.
func (s *Store) tryCommit(ctx context.Context, name string, m Manifest, grapnel []byte) (bool, error) {
	st, err := s.inspect(ctx, name, m.Grapnel.BackupUID)
	if err != nil {
		return false, err
	}
	if st.committed() {
		return true, s.compare(ctx, name, m.VeleroBackup, grapnel)
	}
	if st.stray {
		// Our half must not pass for that of the other system's backup.
		return false, errors.Join(st.available(), s.objects.Delete(ctx, s.grapnelKey(name)))
	}
	if err := st.writable(); err != nil {
		return false, err
	}
	if err := st.complete(m.Grapnel.Files); err != nil {
		return false, err
	}
	if st.torn {
		if err := s.objects.Delete(ctx, s.manifestKey(name)); err != nil {
			return false, err
		}
	}
	if err := s.putBytes(ctx, s.grapnelKey(name), grapnel, objectstore.PutOptions{}); err != nil {
		return false, err
	}
	err = s.putBytes(ctx, s.manifestKey(name), m.VeleroBackup, objectstore.PutOptions{IfAbsent: true})
	if errors.Is(err, objectstore.ErrExists) {
		return false, nil
	}
	return err == nil, err
}

// complete checks the files of a manifest against those that are there.
func (st *state) complete(listed map[File]Digest) error {
	if _, found := listed[Contents]; !found {
		return errors.New("the manifest lacks the archive")
	}
	for _, file := range slices.Sorted(maps.Keys(listed)) {
		base := FileName(st.name, file)
		if base == "" {
			return fmt.Errorf("a backup has no file %q", string(file))
		}
		size, found := st.sizes[base]
		if !found {
			return &CorruptError{Name: st.name, File: base, Reason: "is missing"}
		}
		if want := listed[file].Size; size != want && size != objectstore.UnknownSize {
			return &CorruptError{Name: st.name, File: base, Reason: fmt.Sprintf("has %d bytes instead of %d", size, want)}
		}
	}
	return nil
}

// compare is for a manifest of our own that is there already.
func (s *Store) compare(ctx context.Context, name string, velero, grapnel []byte) error {
	storedVelero, err := s.readJSON(ctx, s.manifestKey(name))
	if err != nil {
		return err
	}
	storedGrapnel, err := s.readJSON(ctx, s.grapnelKey(name))
	if err != nil {
		return err
	}
	if !bytes.Equal(velero, storedVelero) || !bytes.Equal(grapnel, storedGrapnel) {
		return ErrCommitted
	}
	return nil
}

// Manifest reads the manifests of a complete backup. Grapnel is nil for a
// backup of Velero. The error is objectstore.ErrNotExist if there is no such
// backup, and a *CorruptError if the two do not belong together or cannot be
// understood. The content of velero is not checked further.
func (s *Store) Manifest(ctx context.Context, name string) (velero []byte, grapnel *GrapnelManifest, err error) {
	velero, grapnel, err = s.manifest(ctx, name)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the manifest of backup %q: %w", name, err)
	}
	return velero, grapnel, nil
}

func (s *Store) manifest(ctx context.Context, name string) ([]byte, *GrapnelManifest, error) {
	if err := ValidateName(name); err != nil {
		return nil, nil, err
	}
	m, err := s.manifests(ctx, name)
	if err == nil {
		err = m.mismatch
	}
	return m.velero, m.grapnel, err
}

// manifests are both manifests as they are stored.
type manifests struct {
	velero   []byte
	grapnel  *GrapnelManifest
	mismatch error // Set if they do not belong together.
}

func (s *Store) manifests(ctx context.Context, name string) (manifests, error) {
	velero, err := s.readJSON(ctx, s.manifestKey(name))
	if err != nil {
		return manifests{}, err
	}
	data, err := s.readJSON(ctx, s.grapnelKey(name))
	if errors.Is(err, objectstore.ErrNotExist) {
		return manifests{velero: velero}, nil
	}
	if err != nil {
		return manifests{}, err
	}
	grapnel := &GrapnelManifest{}
	corrupt := func(reason string) error {
		return &CorruptError{Name: name, File: name + grapnelSuffix, Reason: reason}
	}
	switch {
	case json.Unmarshal(data, grapnel) != nil || grapnel.BackupUID == "":
		return manifests{}, corrupt("is not a manifest")
	case grapnel.Version != ManifestVersion:
		return manifests{}, corrupt(fmt.Sprintf("has version %d, and only %d is understood", grapnel.Version, ManifestVersion))
	case grapnel.VeleroBackup != digestOf(velero):
		return manifests{velero: velero, grapnel: grapnel, mismatch: corrupt("does not belong to " + manifestName)}, nil
	}
	return manifests{velero: velero, grapnel: grapnel}, nil
}

// Verify reads all files of the manifest and compares their digests. The error
// is a *CorruptError for the first that differs, ErrNoDigests for a backup
// that is not Grapnel's, or objectstore.ErrNotExist.
func (s *Store) Verify(ctx context.Context, name string) error {
	_, grapnel, err := s.Manifest(ctx, name)
	if err != nil {
		return err
	}
	if grapnel == nil {
		return fmt.Errorf("verifying backup %q: %w", name, ErrNoDigests)
	}
	for _, file := range slices.Sorted(maps.Keys(grapnel.Files)) {
		if err := s.verifyFile(ctx, name, file, grapnel.Files[file]); err != nil {
			return fmt.Errorf("verifying backup %q: %w", name, err)
		}
	}
	return nil
}

func (s *Store) verifyFile(ctx context.Context, name string, file File, want Digest) (err error) {
	key, err := s.fileKey(name, file)
	if err != nil {
		return &CorruptError{Name: name, File: name + grapnelSuffix, Reason: err.Error()}
	}
	base := FileName(name, file)
	r, err := s.objects.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotExist) {
		return &CorruptError{Name: name, File: base, Reason: "is missing"}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	// One byte more than expected is enough to see that there are more.
	n, err := io.Copy(h, io.LimitReader(r, want.Size+1))
	if err != nil {
		return err
	}
	if n != want.Size {
		return &CorruptError{Name: name, File: base, Reason: fmt.Sprintf("does not have the %d bytes it had", want.Size)}
	}
	if hex.EncodeToString(h.Sum(nil)) != want.SHA256 {
		return &CorruptError{Name: name, File: base, Reason: "does not have the content it had"}
	}
	return nil
}
