// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package driverdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Dir is the path of the directory.
type Dir string

// Volume is the record of a volume.
type Volume struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// CapacityBytes is recorded, and not enforced.
	CapacityBytes int64     `json:"capacityBytes"`
	Created       time.Time `json:"created"`
	// SnapshotID is the snapshot that the volume was created from, if any.
	SnapshotID string `json:"snapshotID,omitempty"`
}

// Snapshot is the record of a snapshot.
type Snapshot struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"`
	VolumeID      string    `json:"volumeID"`
	CapacityBytes int64     `json:"capacityBytes"`
	Created       time.Time `json:"created"`
	// ReadyAt is when the snapshot becomes ready to use.
	ReadyAt time.Time `json:"readyAt"`
	// GroupID is the group that the snapshot belongs to, if any.
	GroupID string `json:"groupID,omitempty"`
}

// Group is the record of a group of snapshots.
type Group struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	VolumeIDs   []string  `json:"volumeIDs"`
	SnapshotIDs []string  `json:"snapshotIDs"`
	Created     time.Time `json:"created"`
}

// Record is what has a record.
type Record interface {
	Volume | Snapshot | Group
}

func directoryOf[R Record]() string {
	var r R
	switch any(r).(type) {
	case Volume:
		return "volumes"
	case Snapshot:
		return "snapshots"
	default:
		return "groups"
	}
}

// Create creates the directory, if it is missing.
func (d Dir) Create() error {
	var errs []error
	for _, name := range []string{directoryOf[Volume](), directoryOf[Snapshot](), directoryOf[Group]()} {
		errs = append(errs, os.MkdirAll(filepath.Join(string(d), name), 0o755))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("creating the directory of the driver: %w", err)
	}
	return nil
}

// DataPath returns the directory with the data of a volume or a snapshot.
func DataPath[R Volume | Snapshot](d Dir, id string) string {
	return filepath.Join(string(d), directoryOf[R](), id)
}

func recordPath[R Record](d Dir, id string) string {
	return filepath.Join(string(d), directoryOf[R](), id+".json")
}

// Load reads a record; found is false if there is none, or if the ID cannot be one.
func Load[R Record](d Dir, id string) (record R, found bool, err error) {
	if id == "" || id != filepath.Base(id) || strings.HasPrefix(id, ".") || len(id) > 100 {
		return record, false, nil
	}
	content, err := os.ReadFile(recordPath[R](d, id))
	if errors.Is(err, fs.ErrNotExist) {
		return record, false, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &record)
	}
	if err != nil {
		return record, false, fmt.Errorf("reading the record of %s: %w", id, err)
	}
	return record, true, nil
}

// List reads all records of a kind, sorted by ID. What is removed meanwhile is left out.
func List[R Record](d Dir) ([]R, error) {
	entries, err := os.ReadDir(filepath.Join(string(d), directoryOf[R]()))
	if err != nil {
		return nil, fmt.Errorf("listing records: %w", err)
	}
	var records []R
	for _, entry := range entries {
		id, isRecord := strings.CutSuffix(entry.Name(), ".json")
		if !isRecord {
			continue
		}
		record, found, err := Load[R](d, id)
		if err != nil {
			return nil, err
		}
		if found {
			records = append(records, record)
		}
	}
	return records, nil
}

// Save writes a record.
func Save[R Record](d Dir, id string, record R) error {
	return writeJSON(recordPath[R](d, id), record)
}

// Remove removes a record and its data. It is not an error if there is none. Tests use it for
// what a storage system loses.
func Remove[R Record](d Dir, id string) error {
	err := os.Remove(recordPath[R](d, id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the record of %s: %w", id, err)
	}
	if err := os.RemoveAll(filepath.Join(string(d), directoryOf[R](), id)); err != nil {
		return fmt.Errorf("removing the data of %s: %w", id, err)
	}
	return nil
}

// writeJSON replaces a file atomically.
func writeJSON(path string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}
