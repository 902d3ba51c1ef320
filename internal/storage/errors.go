// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrCommitted means that the backup of the same UID is already complete, and that the
	// requested change would modify it.
	ErrCommitted = errors.New("backup is already complete")
	// ErrNotClaimed means that a UID that does not hold the name requested a write: it
	// never claimed the name, or released it.
	ErrNotClaimed = errors.New("the name is not claimed by this backup")
	// ErrSuperseded means that a later attempt to write the same backup has begun, in this
	// process or another one. This attempt must stop.
	ErrSuperseded = errors.New("another process has started a new attempt of this backup")
	// ErrOverwritten means that a process of an earlier attempt has replaced a file of this
	// one. Another attempt may succeed.
	ErrOverwritten = errors.New("a process of an earlier attempt has overwritten a file of this backup")
	// ErrNoDigests means that a backup cannot be verified, because Velero or another system
	// created it.
	ErrNoDigests = errors.New("backup has no digests")
)

// TakenError means that the name belongs to another backup.
type TakenError struct {
	// Name of the backup.
	Name string
	// By is the claim of its owner, as far as known. It is empty for a finished backup of
	// Velero.
	By Claim
	// Finished reports that a complete backup exists. Otherwise its run is in progress, or
	// was never cleaned up.
	Finished bool
}

// Error implements error.
func (e *TakenError) Error() string {
	who := "another system"
	if e.By.BackupUID != "" {
		who = fmt.Sprintf("Backup %s/%s (UID %s", e.By.Namespace, e.By.Name, e.By.BackupUID)
		if e.By.Cluster != "" {
			who += ", cluster " + e.By.Cluster
		}
		if !e.By.Created.IsZero() {
			who += ", since " + e.By.Created.UTC().Format(time.RFC3339)
		}
		who += ")"
	}
	if e.Finished {
		return fmt.Sprintf("the storage location already holds a backup %q, created by %s", e.Name, who)
	}
	return fmt.Sprintf("the name %q is taken in the storage location by %s, which has not finished", e.Name, who)
}

// CorruptError means that stored data is inconsistent or does not match its digests.
type CorruptError struct {
	// Name of the backup.
	Name string
	// File is its name in the directory of the backup.
	File string
	// Reason is what is wrong with it.
	Reason string
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("backup %q is damaged: file %q %s", e.Name, e.File, e.Reason)
}

// ForeignPrefixesError means that the location contains directories that are not Velero's,
// which makes a Velero server reject it.
type ForeignPrefixesError struct {
	// Prefixes are the directories, without slashes.
	Prefixes []string
}

// Error implements error.
func (e *ForeignPrefixesError) Error() string {
	return fmt.Sprintf("the storage location contains top-level directories that do not belong there (%s); "+
		"use an empty bucket or directory, or set a prefix", strings.Join(e.Prefixes, ", "))
}
