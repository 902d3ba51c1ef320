// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// ManifestVersion is the version of GrapnelManifest that Commit writes and
// that this package can read.
const ManifestVersion = 1

// ManifestAnnotation is on velero-backup.json of every backup of Grapnel. Its value is the
// version of the GrapnelManifest that belongs to it. If that is missing, it was removed.
const ManifestAnnotation = "grapnel.dev/manifest-version"

// commitAttempts bounds the retries of Commit after a lost race.
const commitAttempts = 3

// Manifest is what Commit writes.
type Manifest struct {
	// VeleroBackup is velero-backup.json: a velero.io/v1 Backup, which Velero servers read.
	// It should contain the UID of the Backup (metadata.uid), by which a process recognizes
	// the manifest of another one that worked for the same UID.
	VeleroBackup []byte
	// Grapnel is <b>-grapnel.json.
	Grapnel GrapnelManifest
}

// GrapnelManifest is the data about a backup that Grapnel itself needs.
type GrapnelManifest struct {
	// Version is set by Commit.
	Version int `json:"version"`
	// BackupUID is the UID of the Backup object; required.
	BackupUID string `json:"backupUID"`
	// VeleroBackup is the digest of velero-backup.json, set by Commit. It links the two
	// manifests.
	VeleroBackup Digest `json:"veleroBackup"`
	// Files are the digests of the files of the complete backup, as returned by the methods
	// of an Attempt. Contents is required.
	Files map[File]Digest `json:"files"`
	// ETags are the ETags from the store when the files were stored. They are valid only in
	// the location where the backup was created, and only prove that a file is unchanged.
	// Commit adds those of its attempt.
	ETags map[File]string `json:"etags,omitempty"`
	// Attempt is that of the claim under which the backup was written, set by Commit.
	Attempt string `json:"attempt,omitempty"`
	// Outputs of the hook actions, by the name of the action.
	Outputs map[string]map[string]string `json:"outputs,omitempty"`
	// Backup is the Backup object as JSON.
	Backup json.RawMessage `json:"backup,omitempty"`
}

// sealManifest sets the fields that Commit sets, and returns <b>-grapnel.json.
func (a *Attempt) sealManifest(m *Manifest) ([]byte, error) {
	if !json.Valid(m.VeleroBackup) {
		return nil, errors.New("velero-backup.json is not valid JSON")
	}
	m.Grapnel.Version, m.Grapnel.BackupUID, m.Grapnel.Attempt = ManifestVersion, a.uid, a.token
	m.Grapnel.VeleroBackup = computeDigest(m.VeleroBackup)
	etags := map[File]string{}
	for file := range m.Grapnel.Files {
		if etag := cmp.Or(a.ETag(file), m.Grapnel.ETags[file]); etag != "" {
			etags[file] = etag
		}
	}
	m.Grapnel.ETags = etags
	grapnel, err := toIndentedJSON(m.Grapnel)
	if err != nil {
		return nil, err
	}
	if size := max(len(grapnel), len(m.VeleroBackup)); size > maxJSONBytes {
		return nil, fmt.Errorf("the manifest has %d bytes, more than the limit of %d", size, maxJSONBytes)
	}
	return grapnel, nil
}

// checkListedFiles checks the files of a manifest against the existing files.
func (st *backupState) checkListedFiles(listed map[File]Digest) error {
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

// compareManifests compares with an existing manifest of our own.
func (s *Store) compareManifests(ctx context.Context, name string, velero, grapnel []byte) error {
	storedVelero, err := s.readJSONFile(ctx, s.manifestKey(name))
	if err != nil {
		return err
	}
	storedGrapnel, err := s.readJSONFile(ctx, s.grapnelKey(name))
	if err != nil {
		return err
	}
	if !bytes.Equal(velero, storedVelero) || !bytes.Equal(grapnel, storedGrapnel) {
		return ErrCommitted
	}
	return nil
}

// ReadManifest reads the manifests of a complete backup. Grapnel is nil for a backup of
// Velero. The error is objectstore.ErrNotExist if there is no such backup, and a
// *CorruptError if the two do not belong together or cannot be parsed. The content of
// velero is not checked further.
func (s *Store) ReadManifest(ctx context.Context, name string) (velero []byte, grapnel *GrapnelManifest, err error) {
	velero, grapnel, err = s.readManifest(ctx, name)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the manifest of backup %q: %w", name, err)
	}
	return velero, grapnel, nil
}

func (s *Store) readManifest(ctx context.Context, name string) ([]byte, *GrapnelManifest, error) {
	if err := ValidateName(name); err != nil {
		return nil, nil, err
	}
	m, err := s.readManifestPair(ctx, name)
	if err == nil {
		err = m.mismatch
	}
	return m.velero, m.grapnel, err
}

// manifestPair is both manifests as stored.
type manifestPair struct {
	velero   []byte
	grapnel  *GrapnelManifest
	mismatch error // set if they do not belong together
}

func (s *Store) readManifestPair(ctx context.Context, name string) (manifestPair, error) {
	velero, err := s.readJSONFile(ctx, s.manifestKey(name))
	if err != nil {
		return manifestPair{}, err
	}
	data, err := s.readJSONFile(ctx, s.grapnelKey(name))
	if errors.Is(err, objectstore.ErrNotExist) {
		return manifestPair{velero: velero}, nil
	}
	if err != nil {
		return manifestPair{}, err
	}
	grapnel := &GrapnelManifest{}
	corrupt := func(reason string) error {
		return &CorruptError{Name: name, File: name + grapnelSuffix, Reason: reason}
	}
	switch {
	case json.Unmarshal(data, grapnel) != nil || grapnel.BackupUID == "":
		return manifestPair{}, corrupt("is not a manifest")
	case grapnel.Version != ManifestVersion:
		return manifestPair{}, corrupt(fmt.Sprintf("has version %d, and only version %d is supported", grapnel.Version, ManifestVersion))
	case grapnel.VeleroBackup != computeDigest(velero):
		return manifestPair{velero: velero, grapnel: grapnel, mismatch: corrupt("does not belong to " + manifestName)}, nil
	}
	return manifestPair{velero: velero, grapnel: grapnel}, nil
}

// Verify reads all files of the manifest and compares their digests. The error
// is a *CorruptError for the first that differs, ErrNoDigests for a backup
// that is not Grapnel's, or objectstore.ErrNotExist.
func (s *Store) Verify(ctx context.Context, name string) error {
	_, grapnel, err := s.ReadManifest(ctx, name)
	if err != nil {
		return err
	}
	if grapnel == nil {
		return fmt.Errorf("verifying backup %q: %w", name, ErrNoDigests)
	}
	for _, file := range slices.Sorted(maps.Keys(grapnel.Files)) {
		if err := s.verifyFileDigest(ctx, name, file, grapnel.Files[file]); err != nil {
			return fmt.Errorf("verifying backup %q: %w", name, err)
		}
	}
	return nil
}

func (s *Store) verifyFileDigest(ctx context.Context, name string, file File, want Digest) (err error) {
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
	// One byte more than expected is enough to detect that there are more.
	n, err := io.Copy(h, io.LimitReader(r, want.Size+1))
	if err != nil {
		return err
	}
	if n != want.Size {
		return &CorruptError{Name: name, File: base, Reason: fmt.Sprintf("does not have its original size of %d bytes", want.Size)}
	}
	if hex.EncodeToString(h.Sum(nil)) != want.SHA256 {
		return &CorruptError{Name: name, File: base, Reason: "does not match its digest"}
	}
	return nil
}
